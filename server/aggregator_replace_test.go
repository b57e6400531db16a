package server_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/protocol"
)

func newReplacingBench(t *testing.T, n, lose int) *bench {
	b := newBench(t, n, lose)
	b.replaces = true
	return b
}

// Where noise is replaced, who unmasked is asked once more. Whose answer to unmask
// came late keeps its noise; whose answer to replace never comes has replaced it all
// the same.
func TestReplace(t *testing.T) {
	b := newReplacingBench(t, 4, 2)
	b.script(`
		open 1           -> announce(1) 0,1,2,3, wake 10s, round-opened
		0 advertise 1    ->
		1 advertise 1    ->
		2 advertise 1    ->
		3 advertise 1    -> roster(4) 0,1,2,3, wake 10s
		0 share 1        ->
		1 share 1        ->
		2 share 1        ->
		3 share 1        -> delivery(4) 0,1,2,3, wake 10s
		0 masked-input 1 ->
		1 masked-input 1 ->
		2 masked-input 1 ->
		3 masked-input 1 -> survivors(4) 0,1,2,3, wake 10s
		0 replace 1      -> message-ignored
		0 unmask 1       ->
		2 unmask 1       ->
		3 unmask 1       ->
		tick 10s         -> answered(3) 0,2,3, wake 20s, lost 1 unmask
		1 unmask 1       -> message-ignored
		1 replace 1      -> message-ignored
		0 replace 1      ->
		0 replace 1      -> message-ignored
		3 replace 1      ->
		tick 19s         ->
		tick 20s         -> work, lost 2 replace
		2 replace 1      -> message-ignored
		run              -> result 1 [[11 1 11 11]] of 4, 3 answered, round-summed`)
}

// The dropout matrix with one more stage: a round aborts at the stage where too few are left.
// Otherwise the sum has the inputs of the clients that sent them and the changes of the clients
// that unmasked.
func TestAbortMatrixOfReplacedNoise(t *testing.T) {
	const n, tolerance = 7, 3
	for _, stage := range replacingStages {
		for _, lost := range []int{0, 1, tolerance, tolerance + 1, n} {
			b := newReplacingBench(t, n, tolerance)
			abort, result := b.round(map[protocol.Stage]int{stage: lost})
			name := fmt.Sprintf("%d lost at %s", lost, stage)
			if lost > tolerance {
				checkAbort(t, name, abort, result, stage, n-lost, n-tolerance)
				continue
			}
			want := &protocol.Result{Round: 1, Integers: [][]int64{make([]int64, n)}, Survivors: n, Answered: n}
			if stage <= protocol.StageMaskedInput {
				want.Survivors -= lost
			}
			if stage <= protocol.StageUnmask {
				want.Answered -= lost
			}
			for i := range want.Survivors {
				want.Integers[0][i]++
			}
			for i := range want.Answered {
				want.Integers[0][i] += 10
			}
			if d := cmp.Diff(want, result); d != "" || abort != nil {
				t.Errorf("%s: abort %+v, result (-want +got):\n%s", name, abort, d)
			}
		}
	}
}
