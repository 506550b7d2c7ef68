// Package s3 has package remote read and keep snapshots in an S3 bucket, at s3://BUCKET/PREFIX/:
//
//	o := remote.Options{Schemes: map[string]remote.Scheme{"s3": s3.Scheme}}
//
// Scheme is configured by the environment, as the tools of AWS are: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and
// AWS_SESSION_TOKEN), or the files of ~/.aws, or the role of the pod or machine; AWS_ENDPOINT_URL_S3 or
// AWS_ENDPOINT_URL for other servers than AWS (http://, or https://), and AWS_REGION. New takes a client of the
// program's own.
//
// An upload of more than 5 MiB is made in parts; those of a process that was killed stay until a lifecycle rule of the
// bucket (AbortIncompleteMultipartUpload) removes them.
//
// Snapshots are read at presigned URLs, by ranges, as others are over HTTP; they are valid for half a day. To read
// takes s3:GetObject, to write s3:PutObject too, and to list and prune s3:ListBucket and s3:DeleteObject.
package s3
