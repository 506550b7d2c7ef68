package snapshot

// Confidential returns why c must not be written in plain text unless the user asks for it; "" if it may be. Every way
// out of a store asks it: save, export, restore, diff, and programs that serve objects.
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
