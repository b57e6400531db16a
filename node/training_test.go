package node_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
)

// owned are the item embeddings that a party of VFL ends with.
func owned(t *testing.T, trainer client.Trainer) []byte {
	t.Helper()
	for _, x := range trainer.(*experiment.Party).Result() {
		if x.Name == "item_embeddings" {
			return x.Matrix.Encode()
		}
	}
	t.Fatal("the party has no item embeddings")
	return nil
}

// A party of VFL is stopped between two rounds and started again. It trains on from its own V_k, so
// that model and embeddings are the same as in a session without a stop, to the bit.
func TestVerticalPartyRestarts(t *testing.T) {
	const id, after = 1, 2
	data := ratings(t, 5, 12)
	session := func(stop bool) (model, own []byte) {
		f := newFederation(t, "algorithm=fmf-vfl rounds=3 parties=3 colluders=0.2 tolerance=0.25 deployment.stage-timeout-s=20 data="+data)
		var mu sync.Mutex
		var party client.Trainer
		f.trained = func(who protocol.ClientID, p client.Trainer) {
			mu.Lock()
			defer mu.Unlock()
			if who == id {
				party = p
			}
		}
		x := f.tapped()
		back := f.settled(x, admission.ClientPlace(id))
		m := f.join(admission.ServerPlace)
		all := f.joinAll()
		ended := make(chan error, 1)
		ctx, cancel := context.WithCancel(f.ctx)
		defer cancel()
		go func() {
			err := all[id].Run(ctx)
			if stop && errors.Is(err, context.Canceled) {
				err = f.client(id, f.memberships[admission.ClientPlace(id)]).Run(f.ctx)
			}
			ended <- err
		}()
		if stop {
			moment{"", protocol.KindResult, after, false}.at(x, nil, func(*passing) { cancel() })
			holdOpen(x, after, back)
		}
		wait := f.start(append(all[:id:id], all[id+1:]...)...)
		out, err := f.server(m).Run(f.ctx)
		if err != nil {
			t.Fatal(err)
		}
		wait()
		if err = <-ended; err != nil {
			t.Fatal(err)
		}
		if out.Attempts.Released != 3 {
			t.Errorf("%d rounds came to a sum, want 3", out.Attempts.Released)
		}
		return out.Model, owned(t, party)
	}
	model, own := session(false)
	again, restarted := session(true)
	if !bytes.Equal(model, again) {
		t.Error("the model is another one after a restart")
	}
	if !bytes.Equal(own, restarted) {
		t.Error("the party's own embeddings are others after a restart")
	}
}
