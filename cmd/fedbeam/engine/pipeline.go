package engine

import (
	"context"
	"fmt"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
)

func init() {
	register.DoFn3x1[context.Context, []byte, func(int, []byte), error](&beginFn{})
	register.DoFn2x3[context.Context, int, int, []byte, error](&openFn{})
	register.DoFn6x1[context.Context, int, func(*[]byte) bool, func(*[]byte) bool, func(int, []byte), func([]byte), error](&contributeFn{})
	register.DoFn3x1[context.Context, []byte, func(int, []byte), error](&absorbFn{})
	register.Combiner1[[]byte](&addFn{})
	register.Emitter1[[]byte]()
	register.Iter1[[]byte]()
	register.Emitter2[int, []byte]()
}

// Counters of a run, in the metrics of Beam: what was computed, repeated work included. A runner that tells
// committed from attempted counts leaves out what was repeated.
const (
	namespace = "fedbeam"
	Inputs    = "inputs"  // contributions that were added up
	Trained   = "trained" // contributions that were computed
	Rounds    = "rounds"  // that the server's side went through
	SumBytes  = "sum-bytes"
)

var (
	inputs   = beam.NewCounter(namespace, Inputs)
	trained  = beam.NewCounter(namespace, Trained)
	rounds   = beam.NewCounter(namespace, Rounds)
	sumBytes = beam.NewCounter(namespace, SumBytes)
)

// build makes the pipeline of rounds first to last. Shards are dealt to groups, each in a scope of its own: a runner
// that has a process for each sends it there.
//
//	shards ──> contribute(first) ──> contribute(first+1) ──> ...   what trainers keep goes along
//	              ^    │ sums           ^    │ sums
//	              │    v                │    v
//	begin ────────┘  absorb(first) ─────┘  absorb(first+1) ──> ...
//
// The server's side is in the exchange folder: begin and absorb write it, and send each shard a word that it is there. As a
// side input it would do as well, but Prism's scheduler goes round in circles while a stage that has one computes.
func build(job Job, fates []*fate, first, last, groups int, everyRound bool) *beam.Pipeline {
	p, s := beam.NewPipelineWithRoot()
	server := beam.ParDo(s.Scope("begin"), &beginFn{job, first}, beam.Impulse(s))
	groups = min(groups, job.Shards)
	shards, scopes := make([]beam.PCollection, groups), make([]beam.Scope, groups)
	for g := range shards {
		scopes[g] = s.Scope(groupScope(g))
		in := scopes[g].Scope("shards")
		var list []int
		for shard := g; shard < job.Shards; shard += groups {
			list = append(list, shard)
		}
		// Without the reshuffle a runner would fuse all shards into the single element that they were made from.
		shards[g] = beam.ParDo(in, &openFn{job, first}, beam.Reshuffle(in, beam.CreateList(in, list)))
	}
	for round := first; round <= last; round++ {
		sums := make([]beam.PCollection, groups)
		for g := range shards {
			in := scopes[g].Scope(fmt.Sprintf("round-%d", round))
			f := &contributeFn{Job: job, Round: round, Fate: fates[round-1], Write: everyRound || round == last}
			var sum beam.PCollection
			shards[g], sum = beam.ParDo2(in, f, beam.CoGroupByKey(in, shards[g], server))
			sums[g] = beam.Combine(in, &addFn{}, sum)
		}
		in := s.Scope(fmt.Sprintf("server-%d", round))
		sum := sums[0]
		if groups > 1 {
			sum = beam.Combine(in, &addFn{}, beam.Flatten(in, sums...))
		}
		server = beam.ParDo(in, &absorbFn{job, round, fates[round-1]}, sum)
	}
	return p
}

// groupScope names the scope of a group of shards. The name serves to find the group's transforms again.
func groupScope(g int) string { return fmt.Sprintf("group-%d", g) }

// beginFn makes the server's side before the first round of a job, or takes up what the job before left.
type beginFn struct {
	Job   Job
	First int
}

func (f *beginFn) ProcessElement(ctx context.Context, _ []byte, word func(int, []byte)) error {
	if f.First == 1 {
		s, err := f.Job.site(ctx)
		if err != nil {
			return err
		}
		t, err := s.begin()
		if err != nil {
			return err
		}
		if err = f.Job.leave(ctx, 1, t); err != nil {
			return err
		}
	}
	f.Job.tell(word)
	return nil
}

// leave leaves the server's side before a round in the exchange folder.
func (j Job) leave(ctx context.Context, round int, t *turn) error {
	b, err := t.encode()
	if err != nil {
		return err
	}
	x := exchange(j.Exchange)
	return x.write(ctx, x.turnFile(round), b)
}

// tell tells each shard that the server's side is there.
func (j Job) tell(word func(int, []byte)) {
	for shard := range j.Shards {
		word(shard, nil)
	}
}

// openFn takes up what the trainers of a shard keep: nothing before the first round.
type openFn struct {
	Job   Job
	First int
}

func (f *openFn) ProcessElement(ctx context.Context, shard int) (int, []byte, error) {
	if f.First == 1 {
		return shard, nil, nil
	}
	x := exchange(f.Job.Exchange)
	state, err := x.read(ctx, x.shardFile(f.First-1, shard))
	return shard, state, err
}

// contributeFn has the clients of a shard train for a round, and adds up what they contribute.
type contributeFn struct {
	Job   Job
	Round int
	Fate  *fate
	Write bool // what trainers keep after it
}

func (f *contributeFn) ProcessElement(ctx context.Context, shard int, states, words func(*[]byte) bool, next func(int, []byte), sum func([]byte)) error {
	var state []byte
	if !states(&state) {
		return nil // the shard is of another group
	}
	s, err := f.Job.site(ctx)
	if err != nil {
		return err
	}
	t, err := s.turn(ctx, f.Job, f.Round)
	if err != nil {
		return err
	}
	if t.Plan == nil {
		return fmt.Errorf("the server plans no round %d", f.Round)
	}
	out, err := s.contribute(ctx, f.Job, shard, state, t.Plan, f.Fate)
	if err == nil {
		err = sabotage(f.Round, shard)
	}
	if err != nil {
		return err
	}
	if f.Write {
		x := exchange(f.Job.Exchange)
		if err = x.write(ctx, x.shardFile(f.Round, shard), out.state); err != nil {
			return err
		}
	}
	b := appendIntegers(make([]byte, 0, 8*len(out.sums)), out.sums)
	trained.Inc(ctx, int64(out.trained))
	inputs.Inc(ctx, int64(out.inputs))
	sumBytes.Inc(ctx, int64(len(b)))
	next(shard, out.state)
	sum(b)
	return nil
}

// sabotage is for tests: it makes work fail after its trainers have done it, and before any result is out.
var sabotage = func(round, shard int) error { return nil }

// addFn adds up sums. The order does not matter to integers.
type addFn struct{}

func (*addFn) CreateAccumulator() []byte { return nil }

func (*addFn) AddInput(a, b []byte) []byte { return addInto(a, b) }

func (*addFn) MergeAccumulators(a, b []byte) []byte { return addInto(a, b) }

func (*addFn) ExtractOutput(a []byte) []byte { return a }

// absorbFn has the server's side take in the sum of a round, with its noise, and plan the next.
type absorbFn struct {
	Job   Job
	Round int
	Fate  *fate
}

func (f *absorbFn) ProcessElement(ctx context.Context, sum []byte, word func(int, []byte)) error {
	s, err := f.Job.site(ctx)
	if err != nil {
		return err
	}
	t, err := s.turn(ctx, f.Job, f.Round)
	if err != nil {
		return err
	}
	x, err := integers(sum)
	if err != nil {
		return err
	}
	after, err := s.absorb(t, f.Fate, x)
	if err != nil {
		return fmt.Errorf("round %d: %w", f.Round, err)
	}
	if err = f.Job.leave(ctx, f.Round+1, after); err != nil {
		return err
	}
	rounds.Inc(ctx, 1)
	f.Job.tell(word)
	return nil
}
