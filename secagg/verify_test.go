package secagg_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// verifiedStages are the stages of active mode whose messages have signatures or revealed shares.
var verifiedStages = map[protocol.Stage]bool{protocol.StageAdvertise: true, protocol.StageShare: true, protocol.StageConsistency: true, protocol.StageUnmask: true}

// A round whose messages are verified side by side, on goroutines of their own, and then taken
// gives the plain sum of the inputs. A message without signatures or shares is not verified.
func TestVerifySideBySide(t *testing.T) {
	for _, mode := range []secagg.Mode{secagg.SemiHonest, secagg.Active} {
		f := small(t, mode)
		for _, stage := range f.stages() {
			receive := make([]func() error, len(f.clients))
			var wg sync.WaitGroup
			for i := range f.clients {
				m, err := f.answer(stage, i)
				if err != nil {
					t.Fatal(err)
				}
				from, said := protocol.ClientID(i), m.(protocol.StageMessage)
				verify := f.aggregator.Verify(from, said)
				if (verify != nil) != (mode == secagg.Active && verifiedStages[stage]) {
					t.Fatalf("%s, %s: a message is verified: %t", mode, stage, verify != nil)
				}
				if receive[i] = func() error { return f.aggregator.Receive(from, said) }; verify != nil {
					wg.Go(func() { receive[i] = verify(protocol.Workers(2)) })
				}
			}
			wg.Wait()
			for _, take := range receive {
				if err := take(); err != nil {
					t.Fatal(err)
				}
			}
			if err := f.aggregator.Close(stage); err != nil {
				t.Fatal(err)
			}
			f.next(stage)
		}
		sums, err := f.aggregator.Sum(serial{})
		if err != nil {
			t.Fatal(err)
		}
		for k, r := range f.plan.Releases {
			for j := range r.Len {
				var want int64
				for i := range f.inputs {
					want += f.inputs[i][k].Value[j]
				}
				if sums[k][j] != want {
					t.Errorf("%s: coordinate %d of release %d is %d, want %d", mode, j, k, sums[k][j], want)
				}
			}
		}
	}
}

// Verify finds a bad signature as Receive does, also the last of many, and names the client; but
// not before the message is taken. A message out of its order needs no verifying. A message that
// was verified while its stage was open is refused after the stage has closed.
func TestVerifyRefuses(t *testing.T) {
	f := standing(t, secagg.Active, protocol.StageAdvertise)
	m, err := f.answer(protocol.StageShare, 2)
	if err != nil {
		t.Fatal(err)
	}
	shares := m.(*protocol.Shares)
	last := len(shares.Shares) - 1
	committed := *shares.Shares[last].Committed
	committed.Signature = make([]byte, len(committed.Signature))
	shares.Shares[last].Committed = &committed
	receive := f.aggregator.Verify(2, shares)(protocol.Workers(2))
	if len(f.aggregator.Culprits()) > 0 {
		t.Error("verifying blames somebody")
	}
	culprit(t, receive(), protocol.ClientParty(2), secagg.ErrSignature)
	if got := f.aggregator.Culprits(); len(got) != 1 || got[0].Client != 2 {
		t.Errorf("culprits are %v, want client 2", got)
	}

	if m, err = f.answer(protocol.StageShare, 3); err != nil {
		t.Fatal(err)
	}
	shares = m.(*protocol.Shares)
	receive = f.aggregator.Verify(3, shares)(protocol.Workers(2))
	f.lose(2, 2)
	if err = f.stage(protocol.StageShare); err != nil {
		t.Fatal(err)
	}
	if err = receive(); !errors.Is(err, secagg.ErrOrder) {
		t.Errorf("shares that were verified in time and taken too late: %v, want %v", err, secagg.ErrOrder)
	}
	if f.aggregator.Verify(3, shares) != nil {
		t.Error("a message that comes too late is verified")
	}
}
