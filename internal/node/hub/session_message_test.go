package hub_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/internal/node/nodetest"
	"github.com/fedsim/fedsim/internal/node/session"
	"github.com/fedsim/fedsim/node/admission"
)

// A document must arrive in its only spelling, whatever the federation's name is.
func TestDocumentsArriveAsTheyAre(t *testing.T) {
	key, err := admission.GenerateKey(simulated.New(1, "operator"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := admission.NewFederation(key, "Films & <Series>", 3, time.Unix(0, 0), simulated.New(1, "federation"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := (&admission.List{Federation: *f, Enrolments: []*admission.Enrolment{}}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := net.Pipe()
	defer ours.Close() //nolint:errcheck // in memory
	said := make(chan error, 1)
	go func() {
		said <- session.Say(nodetest.Pipe{End: ours}, &session.Message{Welcome: &session.Welcome{List: text}})
	}()
	m, err := session.Hear(nodetest.Pipe{End: theirs}, 1<<20)
	if err != nil || <-said != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(m.Welcome.List, text) {
		t.Errorf("said:\n%s\nheard:\n%s", text, m.Welcome.List)
	}
	if _, err = admission.ParseList(m.Welcome.List); err != nil {
		t.Error(err)
	}
}

// left is a stream whose peer has heard what there was to hear, and closed the connection,
// before this side is closed: as go-yamux says it then.
type left struct{ nodetest.Pipe }

func (left) CloseWrite() error { return fmt.Errorf("stream reset: connection closed: %w", io.EOF) }

// A peer that leaves with the last word is no failure.
func TestLastWordIsHeard(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close() //nolint:errcheck // a pipe in memory
	heard := make(chan error, 1)
	go func() {
		m, err := session.Hear(nodetest.Pipe{End: theirs}, session.NoticeSize)
		if err == nil && m.Ready == nil {
			err = session.ErrNotice
		}
		heard <- err
	}()
	if err := session.Conclude(left{nodetest.Pipe{End: ours}}, &session.Message{Ready: &session.Ready{}}); err != nil {
		t.Errorf("a peer that was told and left: %v", err)
	}
	if err := <-heard; err != nil {
		t.Error(err)
	}
}
