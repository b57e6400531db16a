// Package lists makes one list of another, and runs a function for each place in a list on several goroutines.
package lists

import (
	"sync"
	"sync/atomic"
)

// Map returns what a function makes of each element of a list, in their order. Of an empty list it is empty, and never nil.
func Map[X, Y any](list []X, f func(X) Y) []Y {
	all := make([]Y, len(list))
	for i, x := range list {
		all[i] = f(x)
	}
	return all
}

// Each runs f(0) to f(n-1) on so many goroutines and returns when all have returned. The order is not fixed; f must write to places of its
// own only.
func Each(workers, n int, f func(i int)) {
	if workers < 2 || n < 2 {
		for i := range n {
			f(i)
		}
		return
	}
	// Chunks keep the counter off the profile; eight a worker even out the load.
	chunk := max(1, n/(workers*8))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(workers, n) {
		wg.Go(func() {
			for {
				end := int(next.Add(int64(chunk)))
				for i := end - chunk; i < min(end, n); i++ {
					f(i)
				}
				if end >= n {
					return
				}
			}
		})
	}
	wg.Wait()
}
