package secagg_test

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
	"github.com/fedsim/fedsim/server"
	"github.com/fedsim/fedsim/sim"
)

// once is a strategy of one round.
type once struct {
	plan *protocol.Plan
	done bool
}

func (s *once) Next() (*protocol.Plan, bool, error) {
	defer func() { s.done = true }()
	return s.plan, s.done, nil
}
func (*once) Absorb(*protocol.Plan, protocol.Sums, protocol.Runner) error { return nil }
func (*once) Skip(_ *protocol.Plan, err error)                            { panic(err) }
func (*once) Model() []byte                                               { return nil }

var _ server.Strategy = (*once)(nil)

// quiet contributes nothing but its noise.
type quiet struct{}

func (quiet) Contribute(*protocol.Plan, entropy.Source, protocol.Runner) ([]protocol.Vector, error) {
	return []protocol.Vector{{Index: []uint32{}}}, nil
}
func (quiet) Finish([]byte, protocol.Runner) error { return nil }

// BenchmarkThousand is a round of 1,000 clients with 213,540 coordinates each; a tenth of them fall
// silent before the masked input. It goes through all roles in one process: with split noise, on
// all cores, with the command's setting of the collector. The floor is the time that package
// secagg's other benchmarks give for all clients and the unmasking, spread over the cores. It
// leaves out noise, and the secrets that two clients have in common: a simulation computes these
// once (secagg.Agreements).
func BenchmarkThousand(b *testing.B) {
	const n = 1000
	defer debug.SetGCPercent(debug.SetGCPercent(50)) // as the command does
	for b.Loop() {
		p, survivors := crowdRound(b, n, benchLen)
		b.StopTimer()
		choice, err := secagg.Params{Rounds: 1}.Graph(p.Setup()).Choose()
		if err != nil {
			b.Fatal(err)
		}
		f := measureFloors(b)
		k, t := choice.Degree, choice.Threshold
		perClient := time.Duration(k)*f.ecdh + 2*f.generate + time.Duration(k+1)*f.keystream + time.Duration(2*k*t)*f.multiplyAdd
		live := k * survivors / n // neighbours of a lost client, on average
		unmask := time.Duration(survivors)*f.keystream + time.Duration((n-survivors)*live)*(f.ecdh+f.keystream) +
			time.Duration(n*t)*f.multiplyAdd + time.Duration(survivors)*f.addVector
		floor := (time.Duration(n)*perClient + unmask) / time.Duration(runtime.GOMAXPROCS(0))
		b.ReportMetric(float64(floor.Nanoseconds()), "floor-ns")
		b.ReportMetric(b.Elapsed().Seconds()*1e9/float64(max(1, b.N))/float64(floor.Nanoseconds()), "of-floor")
		b.ReportMetric(peak(b), "peak-GB")
		b.StartTimer()
	}
}

// BenchmarkCrowd is a round of many clients that send little, 3,883 items at rank 2. The costs that
// grow with the number of clients count here, and not the vectors. The collector is set as the
// command sets it. cpu-s is processor time, the least of the rounds. The exponent is the growth of
// that time with the number of clients, from one number to the next. 10,000 clients take half a
// minute, and are timed if FEDSIM_TEST_LONG is set.
func BenchmarkCrowd(b *testing.B) {
	numbers := []int{300, 1000, 3000}
	if effort.Long() {
		numbers = append(numbers, 10_000)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(50)) // as the command does
	var before, least float64
	for i, n := range numbers {
		b.Run(fmt.Sprint("clients=", n), func(b *testing.B) {
			least = math.Inf(1)
			for b.Loop() {
				start := processor(b)
				crowdRound(b, n, 2*3883)
				least = min(least, processor(b)-start)
			}
			b.ReportMetric(least, "cpu-s")
			b.ReportMetric(peak(b), "peak-GB")
			if i > 0 && before > 0 {
				b.ReportMetric(math.Log(least/before)/math.Log(float64(n)/float64(numbers[i-1])), "exponent")
			}
		})
		before = least
	}
}

// crowdRound simulates a round of n clients, a tenth of whom fall silent before the masked input. It returns its
// plan and how many survived.
func crowdRound(b *testing.B, n, coordinates int) (p *protocol.Plan, survivors int) {
	b.Helper()
	r := exact("V", coordinates, 32)
	r.Noise = protocol.Noise{Kind: protocol.Split, Variance: 1e6}
	p = plan(n, r)
	p.Cohort = protocol.Cohort{Clients: n, Tolerance: 0.3, Colluders: 0.05}
	trainers := make([]client.Trainer, n)
	for i := range trainers {
		trainers[i] = quiet{}
	}
	named := *p
	named.Session = protocol.SessionID{1}
	out, err := sim.Run(b.Context(), sim.Config{
		Session: named.Session, Strategy: &once{plan: &named}, Trainers: trainers, Rounds: 1, Real: true, Seed: 1, Workers: protocol.Workers(runtime.GOMAXPROCS(0)),
		Faults:  sim.Faults{Dropout: 0.1, Stages: []protocol.Stage{protocol.StageMaskedInput}},
		Network: sim.Network{Up: 1e9, Down: 1e9, StageTimeout: time.Hour},
	})
	if err != nil {
		b.Fatal(err)
	}
	if it := out.Rounds[0]; it.Skipped != nil || it.Survivors == n || it.Survivors < n/2 {
		b.Fatalf("the round was %+v", it)
	}
	return p, out.Rounds[0].Survivors
}

// processor is the time in seconds that processors have spent on the process; NaN where the system does not
// say.
func processor(b *testing.B) float64 {
	b.Helper()
	text, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return math.NaN()
	}
	_, after, _ := strings.Cut(string(text), ") ") // a name may have blanks
	fields := strings.Fields(after)
	var ticks float64 // of 10 ms: utime and stime, fields 14 and 15 of proc(5)
	for _, f := range fields[11:13] {
		n, err := strconv.ParseFloat(f, 64)
		if err != nil {
			b.Fatal(err)
		}
		ticks += n
	}
	return ticks / 100
}

// peak is the most memory that the process has had, in GB; NaN where the system does
// not say.
func peak(b *testing.B) float64 {
	b.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return math.NaN()
	}
	for line := range strings.Lines(string(text)) {
		var kB float64
		if n, _ := fmt.Sscanf(line, "VmHWM: %f kB", &kB); n == 1 {
			return kB * 1024 / 1e9
		}
	}
	return math.NaN()
}
