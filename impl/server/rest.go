package server

import (
	"context"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/writ-id/writ/impl/fault"
	"github.com/writ-id/writ/impl/policy"
)

// route is one REST operation as its HTTP rule states it.
type route struct {
	method, pattern string // for example PATCH, /resources/v3alpha/targets/{id=*}
	rule            string // the pattern as the contract has it
	operation       *policy.Operation
	request         protoreflect.MessageType
	body            string // the JSON name of the field that is the body; "" when all but the path is
	hasBody         bool
	inPath          []protoreflect.FieldDescriptor
	bound           map[string]bool // fields that come from path or body
}

// rest holds the routes of all services and the gateway mux of each.
type rest struct {
	routes   map[string]*route // by method and pattern
	literals map[string]bool   // the patterns without variables
	muxes    map[string]*runtime.ServeMux
	prefixes []prefix // longest first
}

type prefix struct {
	path string
	mux  *runtime.ServeMux
}

func newREST(operations *policy.Operations) (*rest, error) {
	r := &rest{routes: map[string]*route{}, literals: map[string]bool{}, muxes: map[string]*runtime.ServeMux{}}
	for _, service := range operations.Services() {
		descriptor, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service))
		if err != nil {
			return nil, err
		}
		mux := r.newMux(operations)
		r.muxes[service] = mux
		methods := descriptor.(protoreflect.ServiceDescriptor).Methods()
		for i := range methods.Len() {
			to, err := newRoute(methods.Get(i), operations)
			if err != nil {
				return nil, err
			}
			r.routes[to.method+" "+to.pattern] = to
			if !strings.Contains(to.pattern, "{") {
				r.literals[to.pattern] = true
			}
			r.addPrefix(to.pattern, mux)
		}
	}
	return r, nil
}

func newRoute(method protoreflect.MethodDescriptor, operations *policy.Operations) (*route, error) {
	rule := proto.GetExtension(method.Options(), annotations.E_Http).(*annotations.HttpRule)
	request, err := protoregistry.GlobalTypes.FindMessageByName(method.Input().FullName())
	if err != nil {
		return nil, err
	}
	to := &route{
		operation: operations.Find("/" + string(method.Parent().FullName()) + "/" + string(method.Name())),
		request:   request, hasBody: rule.GetBody() != "", bound: map[string]bool{},
	}
	switch at := rule.GetPattern().(type) {
	case *annotations.HttpRule_Get:
		to.method, to.pattern = http.MethodGet, at.Get
	case *annotations.HttpRule_Put:
		to.method, to.pattern = http.MethodPut, at.Put
	case *annotations.HttpRule_Post:
		to.method, to.pattern = http.MethodPost, at.Post
	case *annotations.HttpRule_Delete:
		to.method, to.pattern = http.MethodDelete, at.Delete
	case *annotations.HttpRule_Patch:
		to.method, to.pattern = http.MethodPatch, at.Patch
	}
	fields := method.Input().Fields()
	if field := fields.ByName(protoreflect.Name(rule.GetBody())); field != nil {
		to.bound[rule.GetBody()], to.body = true, field.JSONName()
	} else if rule.GetBody() == "*" {
		for i := range fields.Len() { // nothing is left for the query
			to.bound[string(fields.Get(i).Name())] = true
		}
	}
	for _, segment := range strings.Split(to.pattern, "/") {
		if variable, ok := strings.CutPrefix(segment, "{"); ok {
			name, _, _ := strings.Cut(strings.TrimSuffix(variable, "}"), "=")
			to.bound[name] = true
			to.inPath = append(to.inPath, fields.ByName(protoreflect.Name(name)))
		}
	}
	// The gateway writes {id} as {id=*}.
	to.rule = to.pattern
	to.pattern = strings.NewReplacer("=**}", "=**}", "}", "=*}").Replace(to.pattern)
	return to, nil
}

// addPrefix sends what starts with the literal head of a pattern to mux.
func (r *rest) addPrefix(pattern string, mux *runtime.ServeMux) {
	head, _, _ := strings.Cut(pattern, "/{")
	head, _, _ = strings.Cut(head, "/_")
	for i, p := range r.prefixes {
		if p.path == head {
			return
		}
		if len(p.path) < len(head) {
			r.prefixes = append(r.prefixes[:i], append([]prefix{{head, mux}}, r.prefixes[i:]...)...)
			return
		}
	}
	r.prefixes = append(r.prefixes, prefix{head, mux})
}

// find returns the mux that serves a path, or nil.
func (r *rest) find(path string) *runtime.ServeMux {
	for _, p := range r.prefixes {
		if strings.HasPrefix(path, p.path) && (len(path) == len(p.path) || path[len(p.path)] == '/') {
			return p.mux
		}
	}
	return nil
}

func (r *rest) newMux(operations *policy.Operations) *runtime.ServeMux {
	none := func(string) (string, bool) { return "", false }
	return runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, jsonMarshaler{}),
		runtime.WithMiddlewares(r.strict),
		runtime.WithErrorHandler(writeError),
		runtime.WithRoutingErrorHandler(r.writeRoutingError),
		runtime.WithForwardResponseOption(func(ctx context.Context, w http.ResponseWriter, _ proto.Message) error {
			method, _ := runtime.RPCMethod(ctx)
			if status := policy.RequestFrom(ctx).Status(operations.Find(method)); status != http.StatusOK {
				w.WriteHeader(status)
			}
			return nil
		}),
		// No header becomes metadata: what a call may know of its request is in
		// policy.Request (SEC-231).
		runtime.WithIncomingHeaderMatcher(none),
		runtime.WithOutgoingHeaderMatcher(none),
		runtime.WithOutgoingTrailerMatcher(none),
		runtime.WithMetadata(func(context.Context, *http.Request) metadata.MD { return nil }),
		runtime.WithUnescapingMode(runtime.UnescapingModeAllCharacters),
		runtime.WithDisablePathLengthFallback(),
		runtime.WithDisableHTTPMethodOverride(),
		runtime.WithWriteContentLength(),
	)
}

// strict checks, before a routed request is decoded, what the gateway lets
// pass: the type of the body and the names in the query.
func (r *rest) strict(next runtime.HandlerFunc) runtime.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request, params map[string]string) {
		pattern, _ := runtime.HTTPPattern(req.Context())
		to := r.routes[req.Method+" "+pattern.String()]
		policy.RequestFrom(req.Context()).Route = to.rule
		for _, value := range params {
			// {id=**} also matches no segment at all, and {id} what is the name of
			// another operation, such as _search.
			if value == "" || r.literals[req.URL.Path] {
				policy.RequestFrom(req.Context()).Route = ""
				r.writeRoutingError(req.Context(), nil, nil, w, req, http.StatusMethodNotAllowed)
				return
			}
		}
		if refusal := checkQuery(req.URL.RawQuery, to.request, to.bound); refusal != nil {
			writeFault(w, refusal)
			return
		}
		if to.hasBody {
			if refusal := checkBodyType(req.Header); refusal != nil {
				writeFault(w, refusal)
				return
			}
			body := &requestBody{ReadCloser: req.Body, field: to.body}
			if to.body == "" {
				body.inPath = to.inPath
			}
			req.Body = body
		}
		req.Header.Del("Grpc-Timeout") // the gateway would heed it; it is none of HTTP
		next(w, req, params)
	}
}

// checkBodyType refuses bodies that are not JSON in UTF-8. A PATCH may be called
// a merge patch (RFC 7396), which it is.
func checkBodyType(header http.Header) *fault.Error {
	mediaType, params, err := mime.ParseMediaType(header.Get("Content-Type"))
	charset := strings.ToLower(params["charset"])
	switch {
	case err != nil, mediaType != "application/json" && mediaType != "application/merge-patch+json", charset != "" && charset != "utf-8":
		return fault.New(fault.UnsupportedMediaType, "UNSUPPORTED_MEDIA_TYPE", "the body must be application/json in UTF-8")
	case header.Get("Content-Encoding") != "" && header.Get("Content-Encoding") != "identity":
		return fault.New(fault.UnsupportedMediaType, "UNSUPPORTED_MEDIA_TYPE", "the body must not be compressed")
	}
	return nil
}

// writeError answers a request that failed in the chain, or in decoding before it.
func writeError(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, err error) {
	refusal := faultOf(err)
	if body, ok := r.Body.(*requestBody); ok {
		if body.refusal != nil {
			refusal = body.refusal
		}
		refusal = refusal.Below(body.field, "body")
	}
	writeFault(w, refusal)
}

// writeRoutingError answers a request that no pattern matches.
func (r *rest) writeRoutingError(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, req *http.Request, status int) {
	if allowed := r.allowed(req.URL.Path); status == http.StatusMethodNotAllowed && allowed != "" {
		w.Header().Set("Allow", allowed)
		writeFault(w, fault.New(fault.MethodNotAllowed, "METHOD_NOT_ALLOWED", "%s is not allowed here, only %s", req.Method, allowed))
		return
	}
	writeFault(w, unknownPath(req.URL.Path))
}

func unknownPath(path string) *fault.Error {
	return fault.New(fault.UnknownPath, "PATH_UNKNOWN", "there is nothing at %q; /docs lists the operations", path)
}

var methodOrder = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// allowed returns the methods of the operations at a path. Where a literal and a
// variable both match, the literal names the resource: the methods of
// /executions/{id} are not those of /executions/functions.
func (r *rest) allowed(path string) string {
	segments, fewest := strings.Split(path, "/"), len(path)
	var methods []string
	for _, to := range r.routes {
		if variables := strings.Count(to.pattern, "{"); variables <= fewest && matches(strings.Split(to.pattern, "/"), segments) {
			if variables < fewest {
				fewest, methods = variables, nil
			}
			methods = append(methods, to.method)
		}
	}
	slices.SortFunc(methods, func(a, b string) int { return slices.Index(methodOrder, a) - slices.Index(methodOrder, b) })
	return strings.Join(methods, ", ")
}

func matches(pattern, path []string) bool {
	for i, segment := range pattern {
		if strings.HasSuffix(segment, "=**}") {
			return i < len(path) && path[i] != ""
		}
		if i >= len(path) || !strings.HasPrefix(segment, "{") && segment != path[i] {
			return false
		}
	}
	return len(pattern) == len(path)
}
