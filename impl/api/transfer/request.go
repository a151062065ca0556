package transfer

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"time"

	"github.com/writ-id/writ/gen/admin"
	"github.com/writ-id/writ/gen/openapi"
	"github.com/writ-id/writ/impl/core/document"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/objectstore"
)

// within bounds a request by its own timeout instead of that of all requests.
func within(w http.ResponseWriter, r *http.Request, limit time.Duration) (context.Context, context.CancelFunc) {
	wire := http.NewResponseController(w)
	_ = wire.SetReadDeadline(time.Time{}) // the body is read
	_ = wire.SetWriteDeadline(time.Now().Add(limit + slack))
	return context.WithTimeoutCause(r.Context(), limit, errTimeout)
}

// because returns why something was broken off, if it was.
func because(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// schemas are those of the requests, as the contract has them.
var schemas = document.Of(openapi.Admin)

// decode reads a request. Document 2 names its members in snake_case, the rest of the API in
// lowerCamelCase; both are taken, a member in one of them.
func decode(name string, text []byte, into any) error {
	var value map[string]any
	if json.Unmarshal(text, &value) != nil {
		return schemas.Decode(name, text, into) // which says what is wrong
	}
	same, err := snaked(value)
	if err != nil {
		return err
	}
	if text, err = json.Marshal(same); err != nil {
		return err
	}
	return schemas.Decode(name, text, into)
}

// snaked returns an object with names in snake_case.
func snaked(object map[string]any) (map[string]any, error) {
	same := make(map[string]any, len(object))
	for name, value := range object {
		if under, ok := value.(map[string]any); ok {
			var err error
			if value, err = snaked(under); err != nil {
				return nil, err
			}
		}
		if _, twice := same[snake(name)]; twice {
			return nil, fault.Invalid("MALFORMED_REQUEST", snake(name), "is there twice")
		}
		same[snake(name)] = value
	}
	return same, nil
}

// snake returns a name in snake_case.
func snake(name string) string {
	b := make([]byte, 0, len(name)+4)
	for i := range len(name) {
		c := name[i]
		if 'A' <= c && c <= 'Z' {
			b, c = append(b, '_'), c+'a'-'A'
		}
		b = append(b, c)
	}
	return string(b)
}

// timeout reads how long something may take.
func timeout(said *string, async bool) (time.Duration, error) {
	if said == nil {
		if async {
			return asyncTimeout, nil
		}
		return defaultTimeout, nil
	}
	limit, err := time.ParseDuration(*said)
	if err != nil || limit <= 0 || limit > maxTimeout {
		return 0, fault.Invalid("INVALID_FIELD", "timeout", "must be a duration above 0 and at most %s, such as 30s or 10m", maxTimeout)
	}
	return limit, nil
}

var conflicts = map[admin.ImportRequestOnConflict]OnConflict{"": Refuse, admin.Refuse: Refuse, admin.Skip: Skip, admin.Update: Update}

// value is what is said, or nothing.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// output is where an export goes; nil is the answer.
func output(req *admin.ExportRequest) (*objectstore.Place, error) {
	switch n := count(value(req.ResponseOutput), req.GcsOutput != nil, req.S3Output != nil); {
	case n != 1:
		return nil, fault.Invalid("INVALID_FIELD", "response_output", "one of response_output, gcs_output and s3_output has to be given, and no other")
	case req.GcsOutput != nil:
		return gcs(req.GcsOutput, "gcs_output")
	case req.S3Output != nil:
		return s3(req.S3Output, "s3_output"), nil
	}
	return nil, nil
}

// input is where an import comes from; nil is the request.
func input(req *admin.ImportRequest, inline bool) (*objectstore.Place, error) {
	switch n := count(inline, req.DataOrgsv1Gcs != nil, req.DataOrgsv1S3 != nil); {
	case n != 1:
		return nil, fault.Invalid("INVALID_FIELD", dataMember, "one of data_orgsv1 (an object or a text), data_orgsv1_gcs and data_orgsv1_s3 has to be given, and no other")
	case req.DataOrgsv1Gcs != nil:
		return gcs(req.DataOrgsv1Gcs, "data_orgsv1_gcs")
	case req.DataOrgsv1S3 != nil:
		return s3(req.DataOrgsv1S3, "data_orgsv1_s3"), nil
	}
	return nil, nil
}

func count(these ...bool) (n int) {
	for _, one := range these {
		if one {
			n++
		}
	}
	return n
}

func gcs(o *admin.GCSObject, field string) (*objectstore.Place, error) {
	key, err := base64.StdEncoding.DecodeString(o.ServiceaccountJson)
	if err != nil {
		return nil, fault.Invalid("INVALID_FIELD", field+".serviceaccount_json", "must be base64")
	}
	return &objectstore.Place{Kind: objectstore.GCS, Bucket: o.Bucket, Path: o.Path, Field: field, ServiceAccount: key}, nil
}

func s3(o *admin.S3Object, field string) *objectstore.Place {
	return &objectstore.Place{
		Kind: objectstore.S3, Bucket: o.Bucket, Path: o.Path, Field: field, Endpoint: o.Endpoint, Region: value(o.Region),
		AccessKeyID: o.AccessKeyId, SecretAccessKey: o.SecretAccessKey, Insecure: value(o.Insecure),
	}
}
