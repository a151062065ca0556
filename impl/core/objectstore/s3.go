package objectstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/url"
	"regexp"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/writ-id/writ/impl/core/fault"
)

const (
	defaultRegion = "us-east-1"
	// s3Tries is how often a call of an upload is made that fails without its fault. A download
	// has its own way to go on.
	s3Tries = 3
)

// s3 is a place in a storage that speaks S3.
type s3 struct {
	at   *Place
	core *minio.Core
}

func newS3(at *Place, over *road) (*s3, error) {
	address, err := url.Parse("https://" + at.Endpoint)
	switch {
	case at.Endpoint == "":
		return nil, at.invalid("endpoint", "the endpoint is missing")
	case err != nil || address.Host != at.Endpoint || address.Hostname() == "":
		return nil, at.invalid("endpoint", "an endpoint is host or host:port, without a scheme and without a path")
	case at.AccessKeyID == "":
		return nil, at.invalid("access_key_id", "the ID of the access key is missing")
	case at.SecretAccessKey == "":
		return nil, at.invalid("secret_access_key", "the secret of the access key is missing")
	case at.Region != "" && !regionName.MatchString(at.Region):
		return nil, at.invalid("region", "this is no name of a region, such as %s", defaultRegion)
	}
	region := at.Region
	if region == "" {
		region = defaultRegion // else the library asks, which takes another permission
	}
	tries := s3Tries
	if over.download {
		tries = 1
	}
	core, err := minio.NewCore(at.Endpoint, &minio.Options{
		Creds: credentials.NewStaticV4(at.AccessKeyID, at.SecretAccessKey, ""), Secure: !at.Insecure, Region: region, Transport: over, MaxRetries: tries,
	})
	if err != nil {
		return nil, at.invalid("endpoint", "this is no endpoint of a storage")
	}
	return &s3{at: at, core: core}, nil
}

var regionName = regexp.MustCompile(`^[A-Za-z0-9-]{1,100}$`)

func (s *s3) read(ctx context.Context, offset int64, pin string) (*part, error) {
	var options minio.GetObjectOptions
	if offset > 0 {
		if err := options.SetRange(offset, 0); err != nil {
			return nil, err
		}
	}
	if pin != "" {
		if err := options.SetMatchETag(pin); err != nil {
			return nil, err
		}
	}
	body, object, header, err := s.core.GetObject(ctx, s.at.Bucket, s.at.Path, options)
	if err != nil {
		if code := minio.ToErrorResponse(err).Code; pin != "" && code == minio.NoSuchKey {
			return nil, s.at.changed()
		}
		return nil, err
	}
	return newPart(body, header, object.Size, offset, object.ETag)
}

// s3Upload is an upload in parts, of which one is in memory.
type s3Upload struct {
	storage *s3
	ctx     context.Context // of the whole upload
	id      string
	part    []byte
	parts   []minio.CompletePart
}

func (s *s3) write(ctx context.Context) (upload, error) {
	id, err := s.core.NewMultipartUpload(ctx, s.at.Bucket, s.at.Path, minio.PutObjectOptions{})
	if err != nil {
		return nil, err
	}
	return &s3Upload{storage: s, ctx: ctx, id: id, part: make([]byte, 0, chunk)}, nil
}

// Write implements io.Writer.
func (u *s3Upload) Write(p []byte) (int, error) {
	written := 0
	for len(p) > 0 {
		n := min(len(p), cap(u.part)-len(u.part))
		u.part = append(u.part, p[:n]...)
		p = p[n:]
		written += n
		if len(u.part) == cap(u.part) {
			if err := u.flush(); err != nil {
				return written, err
			}
		}
	}
	return written, nil
}

// flush sends the part that is in memory. Its hash is in what is signed, so the storage
// compares it.
func (u *s3Upload) flush() error {
	digest := sha256.Sum256(u.part)
	number := len(u.parts) + 1
	part, err := u.storage.core.PutObjectPart(u.ctx, u.storage.at.Bucket, u.storage.at.Path, u.id, number, bytes.NewReader(u.part), int64(len(u.part)),
		minio.PutObjectPartOptions{Sha256Hex: hex.EncodeToString(digest[:])})
	if err != nil {
		return err
	}
	u.parts = append(u.parts, minio.CompletePart{PartNumber: number, ETag: part.ETag})
	u.part = u.part[:0]
	return nil
}

func (u *s3Upload) commit() error {
	if len(u.part) > 0 || len(u.parts) == 0 {
		if err := u.flush(); err != nil {
			return err
		}
	}
	_, err := u.storage.core.CompleteMultipartUpload(u.ctx, u.storage.at.Bucket, u.storage.at.Path, u.id, u.parts, minio.PutObjectOptions{})
	return err
}

func (u *s3Upload) abort() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(u.ctx), cleanup)
	defer cancel()
	_ = u.storage.core.AbortMultipartUpload(ctx, u.storage.at.Bucket, u.storage.at.Path, u.id)
}

func (s *s3) refusal(err error) error {
	refused, ok := errors.AsType[minio.ErrorResponse](err)
	if !ok {
		return s.at.failed(err, "endpoint")
	}
	switch refused.Code {
	case minio.NoSuchBucket, minio.InvalidBucketName:
		return s.at.noBucket()
	case minio.NoSuchKey, minio.XMinioInvalidObjectName:
		return s.at.noObject()
	case "InvalidAccessKeyId", "XAdminUserNotFound": // the latter says Versity's gateway
		return s.at.unauthenticated("access_key_id")
	case "SignatureDoesNotMatch":
		return s.at.unauthenticated("secret_access_key")
	case minio.AuthorizationHeaderMalformed, minio.InvalidRegion, "PermanentRedirect":
		if regionName.MatchString(refused.Region) {
			return s.at.refuse(fault.FailedPrecondition, "STORAGE_REGION", "region", "the bucket is in %s", refused.Region)
		}
		return s.at.refuse(fault.FailedPrecondition, "STORAGE_REGION", "region", "the bucket is in another region")
	case minio.PreconditionFailed:
		return s.at.changed()
	}
	return s.at.status(refused.StatusCode, "access_key_id")
}
