package snapshot

// Redaction says which parts of objects are replaced. Its zero value replaces nothing.
type Redaction struct {
	// Secrets and ConfigMaps redact the values of data, stringData and binaryData of those objects. Their names stay.
	Secrets    bool `json:"secrets,omitempty"`
	ConfigMaps bool `json:"configMaps,omitempty"`
	// Annotations are patterns (path.Match) of annotations whose values are redacted.
	Annotations []string `json:"annotations,omitempty"`
	// Env are patterns (path.Match) of the names of environment variables of containers, in any pod template, whose values are redacted.
	Env []string `json:"env,omitempty"`
	// ManagedFields removes metadata.managedFields.
	ManagedFields bool `json:"managedFields,omitempty"`
}
