package contract

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	actionv3 "github.com/writ-id/writ/gen/proto/writ/action/v3alpha"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
)

// parallel makes n calls at once, over the nodes and transports in turn. They
// all wait for each other before they start. A slow machine has no place for some of them,
// which then did nothing: they come again, as they are asked to.
func parallel(t *testing.T, nodes []*suite, n int, request func(i int) proto.Message) []outcome {
	t.Helper()
	outcomes, start := make([]outcome, n), make(chan struct{})
	var done sync.WaitGroup
	for i := range n {
		node := nodes[i%len(nodes)]
		over := node.transports[i/len(nodes)%len(node.transports)]
		req := request(i)
		done.Go(func() {
			<-start
			for range 100 {
				outcomes[i] = over.call(t, t.Context(), node.AdminToken, req)
				if outcomes[i].refusal == nil || !strings.Contains(outcomes[i].refusal.String(), "OVERLOADED") {
					return
				}
				time.Sleep(50 * time.Millisecond)
			}
		})
	}
	close(start)
	done.Wait()
	return outcomes
}

// twoNodes returns the shared server and a second node on its database.
func twoNodes(t *testing.T) []*suite {
	t.Helper()
	s := newSuite(t)
	return []*suite{s, suiteOf(t, s.Node(t))}
}

// TestREL022_OneOfManyFirstsCreates puts the execution of a new condition 64
// times at once. REST tells who created it: one at most, and one exactly when
// all are REST.
func TestREL022_OneOfManyFirstsCreates(t *testing.T) {
	nodes := twoNodes(t)
	s := nodes[0]
	var ids []string
	for i := range 8 {
		ids = append(ids, s.create(webhook(fmt.Sprintf("candidate %d", i))).GetId())
	}
	onlyREST := []*suite{}
	for _, node := range nodes {
		rest := *node
		rest.transports = node.transports[:1]
		onlyREST = append(onlyREST, &rest)
	}
	for round := range 20 {
		condition := []*actionv3.Condition{onMethod(create), onEvent("target.added"), onAllResponses(), onGroup("user")}[round%4]
		over, exactly := onlyREST, true
		if round%4 == 3 {
			over, exactly = nodes, false
		}
		outcomes := parallel(t, over, 64, func(i int) proto.Message {
			id := ids[i%len(ids)]
			return putRequest(condition, []string{id, id, id}, nil)
		})
		created := 0
		sequences := map[uint64]bool{}
		var id string
		for _, got := range outcomes {
			if got.refusal != nil {
				t.Fatalf("round %d: got %s, want an answer", round, got)
			}
			if got.http == 201 {
				created++
			}
			details := got.message.(*actionv3.PutExecutionResponse).GetDetails()
			sequences[details.GetSequence()] = true
			id = details.GetId()
		}
		if created > 1 || exactly && created != 1 {
			t.Errorf("round %d: %d calls got 201, want one", round, created)
		}
		stored := s.execution(condition)
		targets := stored.GetExecution().GetTargets()
		if len(targets) != 3 || targets[0] != targets[1] || targets[1] != targets[2] || !slices.Contains(ids, targets[0]) {
			t.Errorf("round %d: got targets %v, want those of one call", round, targets)
		}
		if !sequences[stored.GetDetails().GetSequence()] {
			t.Errorf("round %d: the stored sequence %d is nobody's answer", round, stored.GetDetails().GetSequence())
		}
		must[*actionv3.DeleteExecutionResponse](s, &actionv3.DeleteExecutionRequest{Id: id})
	}
}

func TestREL023_OneOfManyGetsTheName(t *testing.T) {
	nodes := twoNodes(t)
	for round := range 10 {
		name := fmt.Sprintf("contested %d", round)
		created := 0
		for _, got := range parallel(t, nodes, 32, func(int) proto.Message { return &actionv3.CreateTargetRequest{Target: webhook(name)} }) {
			if got.refusal == nil {
				created++
			} else {
				nodes[0].refused(got, "TARGET_NAME_TAKEN", "target.name")
			}
		}
		found := nodes[0].search(&actionv3.SearchTargetsRequest{
			Filters: []*actionv3.TargetSearchFilter{byName(name, object.TextFilterMethod_TEXT_FILTER_METHOD_EQUALS)},
		}).GetDetails().GetTotalResult()
		if created != 1 || found != 1 {
			t.Errorf("round %d: %d calls created, %d targets are there, want 1 and 1", round, created, found)
		}
	}
}

// TestREL024_PatchesOfDifferentFieldsBothSurvive patches each field of a target
// at once.
func TestREL024_PatchesOfDifferentFieldsBothSurvive(t *testing.T) {
	nodes := twoNodes(t)
	s := nodes[0]
	created := s.create(webhook("patched"))
	newest := created.GetSequence()
	for round := 1; round <= 50; round++ {
		patches := []*actionv3.PatchTarget{
			{Name: ptr(fmt.Sprintf("patched %d", round))},
			{Timeout: durationpb.New(time.Duration(round) * time.Second)},
			{TargetType: &actionv3.PatchTarget_RestWebhook{RestWebhook: &actionv3.RestWebhook{Url: fmt.Sprintf("https://%d.example", round)}}},
			{ExecutionType: &actionv3.PatchTarget_IsAsync{IsAsync: round%2 == 0}},
		}
		answered := []uint64{}
		for _, got := range parallel(t, nodes, len(patches), func(i int) proto.Message {
			return &actionv3.PatchTargetRequest{Id: created.GetId(), Target: patches[i]}
		}) {
			if got.refusal != nil {
				t.Fatalf("round %d: got %s", round, got)
			}
			answered = append(answered, got.message.(*actionv3.PatchTargetResponse).GetDetails().GetSequence())
		}
		want := &actionv3.Target{
			Name: patches[0].GetName(), Timeout: patches[1].GetTimeout(),
			TargetType:    &actionv3.Target_RestWebhook{RestWebhook: patches[2].GetRestWebhook()},
			ExecutionType: &actionv3.Target_IsAsync{IsAsync: patches[3].GetIsAsync()},
		}
		read := nodes[round%2].get(created.GetId())
		if !proto.Equal(read.GetTarget(), want) {
			t.Fatalf("round %d: got %v, want %v", round, read.GetTarget(), want)
		}
		slices.Sort(answered)
		if len(slices.Compact(answered)) != len(patches) || answered[0] <= newest || read.GetDetails().GetSequence() != answered[len(answered)-1] {
			t.Fatalf("round %d: the answers have the sequences %v after %d, the target has %d", round, answered, newest, read.GetDetails().GetSequence())
		}
		newest = read.GetDetails().GetSequence()
	}
}

// TestREL025_DeletingWhileOthersReferLeavesNothingDangling deletes targets and
// executions while executions that refer to them are put.
func TestREL025_DeletingWhileOthersReferLeavesNothingDangling(t *testing.T) {
	nodes := twoNodes(t)
	s := nodes[0]
	conditions := []*actionv3.Condition{onMethod(create), onMethod(read), onMethod(other), onAllRequests()}
	for round := range 15 {
		target := s.create(webhook(fmt.Sprintf("doomed %d", round))).GetId()
		included := s.put(onService(service), []string{target}, nil).GetId()
		outcomes := parallel(t, nodes, 10, func(i int) proto.Message {
			switch i {
			case 3:
				return &actionv3.DeleteTargetRequest{Id: target}
			case 6:
				return &actionv3.DeleteExecutionRequest{Id: included}
			default:
				return putRequest(conditions[i%len(conditions)], []string{target}, []string{included})
			}
		})
		for i, got := range outcomes {
			if got.refusal != nil && got.reason() != "TARGET_NOT_FOUND" && got.reason() != "INCLUDE_NOT_FOUND" {
				t.Errorf("round %d, call %d: got %s", round, i, got)
			}
		}
		s.checkReferences()
	}
}

// checkReferences fails the test if an execution refers to what does not exist.
func (s *suite) checkReferences() {
	s.t.Helper()
	targets, executions := map[string]bool{}, map[string]bool{}
	for _, target := range s.search(&actionv3.SearchTargetsRequest{Query: &object.ListQuery{Limit: 1000}}).GetResult() {
		targets[target.GetDetails().GetId()] = true
	}
	all := must[*actionv3.SearchExecutionsResponse](s, &actionv3.SearchExecutionsRequest{Query: &object.ListQuery{Limit: 1000}}).GetResult()
	for _, execution := range all {
		executions[execution.GetDetails().GetId()] = true
	}
	for _, execution := range all {
		for _, id := range execution.GetExecution().GetTargets() {
			if !targets[id] {
				s.t.Errorf("%s refers to the target %s, which does not exist", execution.GetDetails().GetId(), id)
			}
		}
		for _, id := range execution.GetExecution().GetIncludes() {
			if !executions[id] {
				s.t.Errorf("%s includes %s, which does not exist", execution.GetDetails().GetId(), id)
			}
		}
	}
}

// TestTwoChangesCannotBuildACycleTogether lets two executions include each other
// at once.
func TestTwoChangesCannotBuildACycleTogether(t *testing.T) {
	nodes := twoNodes(t)
	s := nodes[0]
	a, b := "request."+create, "request."+read
	for round := range 15 {
		s.put(onMethod(create), nil, nil)
		s.put(onMethod(read), nil, nil)
		refused := 0
		for _, got := range parallel(t, nodes, 2, func(i int) proto.Message {
			if i == 0 {
				return putRequest(onMethod(create), nil, []string{b})
			}
			return putRequest(onMethod(read), nil, []string{a})
		}) {
			if got.refusal != nil {
				refused++
				s.refused(got, "INCLUDE_CYCLE", "execution.includes[0]")
			}
		}
		if refused != 1 {
			t.Errorf("round %d: %d of two were refused, want 1", round, refused)
		}
		s.empty()
	}
}

// TestREL037_TheOtherNodeReadsWhatWasWritten at once: there is one store.
func TestREL037_TheOtherNodeReadsWhatWasWritten(t *testing.T) {
	nodes := twoNodes(t)
	for i := range 40 {
		writer, reader := nodes[i%2], nodes[(i+1)%2]
		details := writer.create(webhook(fmt.Sprintf("written %d", i)))
		if got := reader.get(details.GetId()); !proto.Equal(got.GetDetails(), details) {
			t.Fatalf("got %v, want %v", got.GetDetails(), details)
		}
		found := reader.search(&actionv3.SearchTargetsRequest{Filters: []*actionv3.TargetSearchFilter{byIDs(details.GetId())}})
		if len(found.GetResult()) != 1 || found.GetDetails().GetProcessedSequence() < details.GetSequence() {
			t.Fatalf("got %v, want the target and a processed sequence of at least %d", found, details.GetSequence())
		}
		patched := reader.patch(details.GetId(), &actionv3.PatchTarget{Name: ptr(fmt.Sprintf("changed %d", i))})
		if got := writer.get(details.GetId()); !proto.Equal(got.GetDetails(), patched) {
			t.Fatalf("got %v, want %v", got.GetDetails(), patched)
		}
	}
}
