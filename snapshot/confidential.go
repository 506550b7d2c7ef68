package snapshot

// Confidential returns why nothing writes c in plain text unless that is asked for, or "" if it may be. It decides for
// every way out of a store: save, export, restore, diff, and a program that serves objects.
func (c Collection) Confidential() string {
	switch {
	case c.SecretsRedacted(): // now, or when what is read was written
		return ""
	case c.Identity.GroupResource() == secrets:
		return "they are Secrets"
	case c.Sealed:
		return "the store that they are from seals them"
	}
	return ""
}
