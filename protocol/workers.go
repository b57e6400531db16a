package protocol

import (
	"sync"
	"sync/atomic"
)

// Workers runs independent computations on a fixed number of goroutines. It is
// a Runner.
type Workers int

// Each runs f(0) to f(n-1) and returns when all have returned. The order is
// not fixed; f must write to places of its own only.
func (w Workers) Each(n int, f func(i int)) {
	if int(w) < 2 || n < 2 {
		for i := range n {
			f(i)
		}
		return
	}
	// Chunks keep the counter off the profile; eight a worker even out the load.
	chunk := max(1, n/(int(w)*8))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(int(w), n) {
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
