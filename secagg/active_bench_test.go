//go:build unix

package secagg_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// BenchmarkActive has what active mode does to shares on the complete graph, of one client or for one client, as time of the processor.
// A dealer agrees on channels, deals and signs. The aggregator checks what one client deals and, at the end, reveals. A holder checks
// what all neighbours dealt, and masks a short vector.
func BenchmarkActive(b *testing.B) {
	for _, n := range []int{benchClients, secagg.CompleteUpTo} {
		p := plan(n, exact("V", 64, 32))
		p.Cohort = protocol.Cohort{Clients: n, Tolerance: 0.1, Colluders: 0.05}
		f := newFederationWith(b, p, secagg.Params{Mode: secagg.Active}, nil)
		f.through(protocol.StageAdvertise)
		run := func(name string, f func() error) {
			b.Run(fmt.Sprintf("%s/n=%d", name, n), func(b *testing.B) {
				began := busy(b)
				for b.Loop() {
					if err := f(); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64((busy(b)-began).Microseconds())/float64(b.N)/1000, "cpu-ms/op")
			})
		}
		dealer, before := f.clients[0].Fork(), f.aggregator.Fork()
		m, err := f.clients[0].Fork().ShareUnverified(f.rosters, serial{})
		if err != nil {
			b.Fatal(err)
		}
		run("dealer", func() (err error) { _, err = dealer.Fork().ShareUnverified(f.rosters, serial{}); return })
		run("aggregator/dealt", func() error { return before.Fork().Receive(0, m) })
		if n > benchClients {
			continue // all clients would have to deal
		}
		if err = f.stage(protocol.StageShare); err != nil {
			b.Fatal(err)
		}
		holder := f.clients[0].Fork()
		run("holder", func() (err error) { _, err = holder.Fork().MaskedInput(f.deliveries[0], f.inputs[0], serial{}); return })
		for _, s := range []protocol.Stage{protocol.StageMaskedInput, protocol.StageConsistency} {
			if err = f.stage(s); err != nil {
				b.Fatal(err)
			}
		}
		answer, err := f.answer(protocol.StageUnmask, 0)
		if err != nil {
			b.Fatal(err)
		}
		run("aggregator/revealed", func() error { return f.aggregator.Fork().Receive(0, answer.(protocol.StageMessage)) })
	}
}

// busy is the time that the process has computed, which other load does not add to.
func busy(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
