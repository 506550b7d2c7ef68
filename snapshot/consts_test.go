package snapshot_test

import "encoding/base64"

// redactedText replaces a redacted value. redactedData is the same text in base64, for fields that hold base64.
const redactedText = "REDACTED"

var redactedData = base64.StdEncoding.EncodeToString([]byte(redactedText))

// redactedTransform begins the stored transform version (Attributes.Transform) of collections from a redacted snapshot.
const redactedTransform = "redacted: "

// lastApplied is the annotation in which kubectl apply keeps a copy of the object.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

const (
	maxProblems   = 1000 // maximum number of problems in a Report of Verify
	progressEvery = 256  // objects between two progress reports
)

// suffixNew follows the snapshot's name in the name of an unfinished file. A random text follows suffixNew.
const suffixNew = ".new-"
