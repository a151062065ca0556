package cache_test

import (
	"context"
	"testing"

	"github.com/writ-id/writ/impl/core/cache"
)

func TestAMemoryForgetsWhatAllHold(t *testing.T) {
	t.Parallel()
	var memory cache.Memory
	one, other, apart := &cache.Cache[string, int]{}, &cache.Cache[string, int]{}, &cache.Cache[string, int]{}
	memory.Holds(one.Drop)
	memory.Holds(other.Drop)
	(*cache.Memory)(nil).Holds(apart.Drop)
	all := []*cache.Cache[string, int]{one, other, apart}
	loads := make([]int, len(all))
	read := func() {
		for i, c := range all {
			if _, err := c.Get(t.Context(), "k", func(context.Context) (int, error) { loads[i]++; return 0, nil }); err != nil {
				t.Fatal(err)
			}
		}
	}
	read()
	(*cache.Memory)(nil).Forget()
	read()
	memory.Forget()
	read()
	if got, want := [3]int(loads), [3]int{2, 2, 1}; got != want {
		t.Errorf("they loaded %v times, want %v", got, want)
	}
}
