package snapshot_test

import "encoding/base64"

// What a redacted value is replaced by, and one of bytes.
const redactedText = "REDACTED"

var redactedData = base64.StdEncoding.EncodeToString([]byte(redactedText))

// redactedTransform is what Attributes.Transform begins with where something was redacted.
const redactedTransform = "redacted: "

// lastApplied is the annotation that kubectl apply keeps a whole object in.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

const (
	maxProblems   = 1000 // that Verify lists
	progressEvery = 256  // objects between two reports
)

// suffixNew is what the name of a file that is being made has behind that of the snapshot, with something more.
const suffixNew = ".new-"
