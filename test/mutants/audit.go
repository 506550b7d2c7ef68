package main

var auditMutants = []mutant{
	{
		name:   "audit/not-compared-again",
		breaks: "Changes in flight are not reported: they are compared again once the stream has reached the page.",
		file:   "informer/audit/scan.go",
		old: `		if err = s.catchUp(ctx, p.resourceVersion); err == nil {
			differing, err = s.differing(ctx, p, after, last)
		}
`,
		new: `		err = s.catchUp(ctx, p.resourceVersion)
`,
		test: "TestAudit",
	},
	{
		name:   "audit/ghost-behind-the-last-key",
		breaks: "An object that is stored behind the server's last key is found.",
		file:   "informer/audit/scan.go",
		old: `	for _, ref := range stored {
		if !entry.NewerRV(ref.ResourceVersion, p.resourceVersion) {
			keys = append(keys, ref.Key)
		}
	}
`,
		new:  ``,
		test: "TestAudit",
	},
	{
		name:   "audit/incident-not-counted",
		breaks: "An audit that finds that objects differ is counted as an incident.",
		file:   "informer/audit/scan.go",
		old: `	s.incidentLocked(CauseAudit)
`,
		new:  ``,
		test: "TestAudit",
	},
}
