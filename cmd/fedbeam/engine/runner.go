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

// Counts holds the counters of a job, by name.
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
	if res == nil { // the runner does not wait for the job
		return counts, nil
	}
	for _, c := range res.Metrics().Query(func(r beam.MetricResult) bool { return r.Namespace() == namespace }).Counters() {
		counts[c.Name()] += committed(c)
	}
	return counts, nil
}

// committed returns a counter's total of committed work, or of all attempted work if the runner reports no commits.
func committed(c metrics.CounterResult) int64 {
	if c.Committed > 0 {
		return c.Committed
	}
	return c.Attempted
}
