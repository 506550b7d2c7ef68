package snapshot_test

import "encoding/base64"

// redactedText replaces a redacted text, redactedData a redacted value in base64.
const redactedText = "REDACTED"

var redactedData = base64.StdEncoding.EncodeToString([]byte(redactedText))

// redactedTransform is the prefix of the stored transform version (Attributes.Transform) of collections that were
// restored from a redacted snapshot.
const redactedTransform = "redacted: "

// lastApplied is the annotation in which kubectl apply keeps a copy of the object.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

const (
	maxProblems   = 1000 // maximum number of problems in a Report of Verify
	progressEvery = 256  // objects between two progress reports
)

// suffixNew follows the snapshot's name in the name of an unfinished file. A random text follows it.
const suffixNew = ".new-"
