package server_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fedsim/fedsim/internal/protocol/wire"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/relay"
)

// BenchmarkClient is a relay's work for each of its clients, from bytes to bytes. A round has
// 213,540 coordinates in a ring of 29 bits, and its noise is split. of-read is the ratio to the
// time of reading the message alone.
func BenchmarkClient(b *testing.B) {
	const length, width, clients = 213540, 29, 1000
	plan := &protocol.Plan{Round: 1, Cohort: protocol.Cohort{Clients: clients, Tolerance: 0.3}, Releases: []protocol.Release{
		{Name: "g", Len: length, L2: 1, MaxNonZero: length, Scale: 1, Width: width, Noise: protocol.Noise{Kind: protocol.Split, Variance: 1e6}}}}
	limits := wire.LimitsFor(wire.Session{Plans: []*protocol.Plan{plan}, Neighbours: 200})
	rng := rand.New(rand.NewPCG(1, 2))
	packed := make([]byte, (length*width+7)/8)
	for i := range packed {
		packed[i] = byte(rng.Uint32())
	}
	packed[len(packed)-1] &= 1<<(8-(8*len(packed)-length*width)) - 1
	removal := make([]int64, length)
	for i := range removal { // of the variance that is left of a share if no client is lost
		removal[i] = int64(math.Round(rng.NormFloat64() * math.Sqrt(1e6/700-1e6/1000)))
	}
	unmask := &protocol.Unmask{Round: 1, Removed: [][]byte{protocol.AppendRemoval(nil, removal)}}
	for i := range 140 {
		unmask.Shares = append(unmask.Shares, protocol.RevealedShare{Of: protocol.ClientID(i)})
	}
	for _, m := range []protocol.StageMessage{&protocol.MaskedInput{Round: 1, Masked: [][]byte{packed}}, unmask} {
		_, stage := m.At()
		text, err := wire.Marshal(m)
		if err != nil {
			b.Fatal(err)
		}
		read := func() protocol.Message {
			got, err := wire.Unmarshal(m.Kind(), text, limits)
			if err != nil {
				b.Fatal(err)
			}
			return got
		}
		b.Run(fmt.Sprint(stage), func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			r := relay.New(relay.Config{Clients: clients, Rounds: 10})
			begin := func() {
				r.Step(time.Time{}, protocol.Received{Envelope: protocol.Envelope{From: upstream, Message: &protocol.Announce{Plan: plan}}})
			}
			var floor time.Duration
			n := protocol.ClientID(0)
			for b.Loop() {
				if n%clients == 0 {
					begin()
				}
				began := time.Now()
				in := read()
				floor += time.Since(began)
				for _, e := range r.Step(time.Time{}, protocol.Received{Envelope: protocol.Envelope{From: protocol.ClientParty(n % clients), Message: in}}).Send {
					if _, err := wire.AppendFrames(nil, e.Message); err != nil {
						b.Fatal(err)
					}
				}
				r.Step(time.Time{}, protocol.Received{Envelope: protocol.Envelope{From: upstream, Message: &protocol.RelayAck{Round: 1, Stage: stage, Client: n % clients}}})
				n++
			}
			b.ReportMetric(float64(b.Elapsed())/float64(floor), "of-read")
		})
	}
}
