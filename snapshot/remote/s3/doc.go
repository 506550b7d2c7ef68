// Package s3 lets package remote read and keep snapshots in an S3 bucket, at s3://BUCKET/PREFIX/:
//
//	o := remote.Options{Schemes: map[string]remote.Scheme{"s3": s3.Scheme}}
//
// The environment configures Scheme, as it does the AWS tools. Credentials are AWS_ACCESS_KEY_ID and
// AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN), or the files of ~/.aws, or the role of the pod or machine.
// AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL name another server than AWS (http:// or https://), and AWS_REGION the
// region. New takes a client of the program.
//
// An upload of more than 5 MiB has several parts. The parts of a killed process stay until a lifecycle rule of the
// bucket (AbortIncompleteMultipartUpload) removes them.
//
// Snapshots are read by ranges at presigned URLs, which are valid for half a day. Reading needs s3:GetObject, writing
// also s3:PutObject, listing and pruning s3:ListBucket and s3:DeleteObject.
package s3
