package format

// AppendDocument appends the record of a document to dst.
func AppendDocument(dst []byte, name string, data []byte) []byte {
	return AppendRecord(dst, string(BucketDocuments), name, Header{Encoding: "document"}, data)
}

// ParseDocument returns the document in a record. It fails with entry.ErrDamaged if the checksum is wrong.
func ParseDocument(name string, data []byte) ([]byte, error) {
	_, payload, err := ParseRecord(string(BucketDocuments), name, data)
	return payload, err
}
