package contract

import (
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionv1alpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	actionv3 "github.com/writ-id/writ/gen/proto/writ/action/v3alpha"
	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"

	"github.com/writ-id/writ/conformance/harness"
)

func dial(t *testing.T, server *harness.Server) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(server.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// tested returns the services that the suite knows, sorted.
func tested() []string {
	services := map[string]bool{}
	for _, op := range operations {
		services[string(op.method.Parent().FullName())] = true
	}
	return slices.Sorted(maps.Keys(services))
}

func TestHealthOfTheServerAndOfEachService(t *testing.T) {
	client := healthv1.NewHealthClient(dial(t, harness.Shared(t)))
	for _, service := range append(tested(), "") {
		got, err := client.Check(t.Context(), &healthv1.HealthCheckRequest{Service: service})
		if err != nil || got.GetStatus() != healthv1.HealthCheckResponse_SERVING {
			t.Errorf("%q: got %s and error %v, want SERVING", service, got.GetStatus(), err)
		}
	}
	if _, err := client.Check(t.Context(), &healthv1.HealthCheckRequest{Service: "no.such.Service"}); status.Code(err) != codes.NotFound {
		t.Errorf("an unknown service: got %v, want NotFound", err)
	}
}

// own drops the services that are there for every gRPC server.
func own(services []string) []string {
	return slices.Sorted(slices.Values(slices.DeleteFunc(services, func(name string) bool { return strings.HasPrefix(name, "grpc.") })))
}

func TestReflectionListsTheServices(t *testing.T) {
	conn := dial(t, harness.Shared(t))
	t.Run("v1", func(t *testing.T) {
		if diff := cmp.Diff(tested(), own(reflected(t, conn))); diff != "" {
			t.Errorf("-tested +served:\n%s", diff)
		}
	})
	t.Run("v1alpha", func(t *testing.T) {
		stream, err := reflectionv1alpha.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(&reflectionv1alpha.ServerReflectionRequest{ //nolint:SA1019 // which old clients ask
			MessageRequest: &reflectionv1alpha.ServerReflectionRequest_ListServices{ListServices: "*"}, //nolint:SA1019 // which old clients ask
		}); err != nil {
			t.Fatal(err)
		}
		got, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, service := range got.GetListServicesResponse().GetService() { //nolint:SA1019 // which old clients ask
			names = append(names, service.GetName()) //nolint:SA1019 // which old clients ask
		}
		if diff := cmp.Diff(tested(), own(names)); diff != "" {
			t.Errorf("-tested +served:\n%s", diff)
		}
	})
}

// reflected returns the names of all services.
func reflected(t *testing.T, conn *grpc.ClientConn) []string {
	t.Helper()
	answer := reflectOne(t, conn, &reflectionv1.ServerReflectionRequest{
		MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{ListServices: "*"},
	})
	var names []string
	for _, service := range answer.GetListServicesResponse().GetService() {
		names = append(names, service.GetName())
	}
	return names
}

func reflectOne(t *testing.T, conn *grpc.ClientConn, req *reflectionv1.ServerReflectionRequest) *reflectionv1.ServerReflectionResponse {
	t.Helper()
	stream, err := reflectionv1.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(req); err != nil {
		t.Fatal(err)
	}
	answer, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// served returns all methods of the served services, as reflection tells them.
func served(t *testing.T, conn *grpc.ClientConn) []string {
	t.Helper()
	var methods []string
	for _, name := range own(reflected(t, conn)) {
		answer := reflectOne(t, conn, &reflectionv1.ServerReflectionRequest{
			MessageRequest: &reflectionv1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: name},
		})
		for _, text := range answer.GetFileDescriptorResponse().GetFileDescriptorProto() {
			file := &descriptorpb.FileDescriptorProto{}
			if err := proto.Unmarshal(text, file); err != nil {
				t.Fatal(err)
			}
			for _, service := range file.GetService() {
				for _, method := range service.GetMethod() {
					if full := file.GetPackage() + "." + service.GetName(); full == name {
						methods = append(methods, "/"+full+"/"+method.GetName())
					}
				}
			}
		}
	}
	slices.Sort(methods)
	return methods
}

// TestEveryServedOperationIsTested fails when an operation is added without its
// place in the suite, and when one states no policy.
func TestEveryServedOperationIsTested(t *testing.T) {
	server := harness.Shared(t)
	methods := served(t, dial(t, server))
	if diff := cmp.Diff(slices.Sorted(maps.Keys(operations)), methods); diff != "" {
		t.Errorf("-tested +served:\n%s", diff)
	}
	var published []string
	for _, item := range server.Document(t).Paths.Map() {
		for _, operation := range item.Operations() {
			if method, ok := operation.Extensions["x-grpc-method"].(string); ok { // the OAuth endpoints have none
				published = append(published, method)
			}
		}
	}
	slices.Sort(published)
	if diff := cmp.Diff(methods, published); diff != "" {
		t.Errorf("-served +published:\n%s", diff)
	}
}

func TestConditionsCanNameWhatIsServed(t *testing.T) {
	s := newSuite(t)
	// What applies to the system alone is nobody's to extend.
	ofSystem := func(method string) bool {
		return strings.HasPrefix(method, "/writ.instance.v3alpha.ServiceInstances/") || strings.HasSuffix(method, "SystemFeatures")
	}
	methods := slices.DeleteFunc(served(t, dial(t, s.Server)), ofSystem)
	services := slices.DeleteFunc(tested(), func(service string) bool { return ofSystem("/" + service + "/") })
	if diff := cmp.Diff(methods, must[*actionv3.ListAvailableExecutionMethodsResponse](s, &actionv3.ListAvailableExecutionMethodsRequest{}).GetMethods()); diff != "" {
		t.Errorf("-served +listed:\n%s", diff)
	}
	if diff := cmp.Diff(services, must[*actionv3.ListAvailableExecutionServicesResponse](s, &actionv3.ListAvailableExecutionServicesRequest{}).GetServices()); diff != "" {
		t.Errorf("-served +listed:\n%s", diff)
	}
	_, functions := catalogue(t, s.Server)
	if diff := cmp.Diff(functions, must[*actionv3.ListAvailableExecutionFunctionsResponse](s, &actionv3.ListAvailableExecutionFunctionsRequest{}).GetFunctions()); diff != "" {
		t.Errorf("-in the contract +listed:\n%s", diff)
	}
}

// catalogue returns the events and functions of the published descriptors, each
// sorted.
func catalogue(t *testing.T, server *harness.Server) (events, functions []string) {
	t.Helper()
	response, err := http.Get(server.Issuer + "/proto")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	files := &descriptorpb.FileDescriptorSet{}
	if err := proto.Unmarshal(text, files); err != nil {
		t.Fatal(err)
	}
	for _, file := range files.GetFile() {
		for _, message := range file.GetMessageType() {
			if name := proto.GetExtension(message.GetOptions(), policyv1.E_Event).(*policyv1.Event).GetType(); name != "" {
				events = append(events, name)
			}
			if name := proto.GetExtension(message.GetOptions(), policyv1.E_Function).(*policyv1.Function).GetName(); name != "" {
				functions = append(functions, name)
			}
		}
	}
	slices.Sort(events)
	slices.Sort(functions)
	if len(events) == 0 || len(functions) == 0 {
		t.Fatalf("the descriptors have %d events and %d functions", len(events), len(functions))
	}
	return events, functions
}
