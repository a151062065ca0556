package contract

import (
	"context"
	goflag "flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/writ-id/writ/conformance/harness"
)

// answered are the operations that were answered with what they are for, by path.
var answered sync.Map

// noted is a transport that notes what is answered.
type noted struct{ transport }

// call implements transport.
func (n noted) call(t testing.TB, ctx context.Context, token string, req proto.Message) outcome {
	t.Helper()
	got := n.transport.call(t, ctx, token, req)
	if got.refusal == nil {
		answered.Store(operationOf(req).path(), true)
	}
	return got
}

// checkCases returns the operations that the suite has no case for: that were refused
// each time, or never called. TestMain asks at the end, when all tests ran.
func checkCases(*harness.Server) error {
	if goflag.Lookup("test.run").Value.String() != "" || goflag.Lookup("test.skip").Value.String() != "" {
		return nil
	}
	var without []string
	for path := range operations {
		if _, ok := answered.Load(path); !ok {
			without = append(without, path)
		}
	}
	if slices.Sort(without); len(without) > 0 {
		return fmt.Errorf("%d operations have no case in which they do what they are for:\n%s", len(without), strings.Join(without, "\n"))
	}
	return nil
}
