package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"

	"github.com/apache/beam/sdks/v2/go/container/tools"
	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/graphx"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/harness"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/util/protox"
	pipepb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/pipeline_v1"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/universal/extworker"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/universal/runnerlib"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/util/grpcx"
)

// Prism has one worker for each environment of a pipeline, and the Go SDK gives a pipeline one environment. So that
// several processes of this machine work on a run, the transforms of each group of shards are moved to an
// environment of their own, which is this program, started as a worker.

// provisionFlag begins the argument with which Prism tells a worker where to ask for its other settings.
const provisionFlag = "--provision_endpoint="

// ServeAsWorker works for the Prism that started this process, and returns true when the work is done. It returns false
// at once if the arguments are not of a worker. Call it first of all in main.
func ServeAsWorker(ctx context.Context, args []string) (was bool, err error) {
	var id, endpoint string
	for _, a := range args {
		if v, ok := strings.CutPrefix(a, provisionFlag); ok {
			endpoint = v
		}
		if v, ok := strings.CutPrefix(a, "--id="); ok {
			id = strings.Trim(v, "'") // there is no shell that would take them off
		}
	}
	if endpoint == "" || id == "" {
		return false, nil
	}
	if err = beWatched(); err != nil {
		return true, fmt.Errorf("worker %s: %w", id, err)
	}
	ctx = grpcx.WriteWorkerID(ctx, id)
	info, err := tools.ProvisionInfo(ctx, endpoint)
	if err != nil {
		return true, fmt.Errorf("worker %s: %w", id, err)
	}
	options, err := tools.ProtoToJSON(info.GetPipelineOptions())
	if err == nil {
		err = takeOptions(options)
	}
	if err != nil {
		return true, fmt.Errorf("worker %s: %w", id, err)
	}
	control, stop, err := serveRelay(id, info.GetControlEndpoint().GetUrl())
	if err != nil {
		return true, fmt.Errorf("worker %s: %w", id, err)
	}
	defer stop()
	return true, harness.MainWithOptions(ctx, info.GetLoggingEndpoint().GetUrl(), control, harness.Options{
		RunnerCapabilities: info.GetRunnerCapabilities(), StatusEndpoint: info.GetStatusEndpoint().GetUrl(),
	})
}

// takeOptions has Beam know the options of the pipeline, as the container of a worker does.
func takeOptions(text string) error {
	var o runtime.RawOptionsWrapper
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	runtime.GlobalOptions.Import(o.Options)
	return nil
}

// jobServer is a Prism in this process, for all jobs.
var jobServer = sync.OnceValues(func() (endpoint string, err error) {
	free, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		return "", err
	}
	port := free.Addr().(*net.TCPAddr).Port
	if err = free.Close(); err != nil {
		return "", err
	}
	_, err = prism.CreateJobServer(context.Background(), prism.Options{Port: port})
	return fmt.Sprintf("localhost:%d", port), err
})

// executeInProcesses runs a pipeline by Prism: groups of shards each in a process of its own, the rest in this one.
func executeInProcesses(ctx context.Context, groups int, p *beam.Pipeline) (res beam.PipelineResult, err error) {
	endpoint, err := jobServer()
	if err != nil {
		return nil, err
	}
	here, err := extworker.StartLoopback(ctx, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, here.Stop(ctx)) }()
	edges, _, err := p.Build()
	if err != nil {
		return nil, err
	}
	env, err := graphx.CreateEnvironment(ctx, graphx.URNEnvExternal, here.EnvironmentConfig)
	if err != nil {
		return nil, err
	}
	pipeline, err := graphx.Marshal(edges, &graphx.Options{Environment: env})
	if err != nil {
		return nil, err
	}
	if err = deal(pipeline, env, groups); err != nil {
		return nil, err
	}
	watched, stop, err := watch(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	res, err = runnerlib.Execute(watched, pipeline, endpoint, &runnerlib.JobOptions{Name: jobopts.GetJobName(), Parallelism: -1, Loopback: true}, false)
	if cause := context.Cause(watched); err != nil && ctx.Err() == nil && cause != nil {
		err = cause
	}
	return res, err
}

// deal gives each group of shards an environment of its own.
func deal(p *pipepb.Pipeline, here *pipepb.Environment, groups int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	payload := protox.MustEncode(&pipepb.ProcessPayload{Command: self})
	c := p.GetComponents()
	for g := range groups {
		c.Environments[groupScope(g)] = &pipepb.Environment{Urn: graphx.URNEnvProcess, Payload: payload, Capabilities: here.GetCapabilities()}
	}
	for _, t := range c.GetTransforms() {
		if group, _, ok := strings.Cut(t.GetUniqueName(), "/"); ok && t.GetEnvironmentId() != "" && c.Environments[group] != nil {
			t.EnvironmentId = group
		}
	}
	return nil
}
