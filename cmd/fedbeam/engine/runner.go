package engine

import (
	"context"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/metrics"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/harness/init" // this binary is the workers', too
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/dataflow"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/flink"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/spark"
)

// Prism is the runner of this machine, in this process.
const Prism = "prism"

// Counts are what a job counted, by the name of the counter.
type Counts map[string]int64

// execute runs a pipeline to its end.
func execute(ctx context.Context, o Options, p *beam.Pipeline) (Counts, error) {
	var res beam.PipelineResult
	var err error
	if o.Processes > 0 {
		res, err = executeInProcesses(ctx, o.Processes, p)
	} else {
		res, err = beam.Run(ctx, o.Runner, p)
	}
	if err != nil {
		return nil, err
	}
	counts := make(Counts)
	if res == nil { // of a job that nobody waits for
		return counts, nil
	}
	for _, c := range res.Metrics().Query(func(r beam.MetricResult) bool { return r.Namespace() == namespace }).Counters() {
		counts[c.Name()] += committed(c)
	}
	return counts, nil
}

// committed is what a counter says of work that counts; of all work, where the runner does not tell.
func committed(c metrics.CounterResult) int64 {
	if c.Committed > 0 {
		return c.Committed
	}
	return c.Attempted
}
