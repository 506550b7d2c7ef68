package format

func AppendDocument(dst []byte, name string, data []byte) []byte {
	return AppendRecord(dst, string(BucketDocuments), name, Header{Encoding: "document"}, data)
}

func ParseDocument(name string, data []byte) ([]byte, error) {
	_, payload, err := ParseRecord(string(BucketDocuments), name, data)
	return payload, err
}
