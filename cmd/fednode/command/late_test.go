package command

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/effort"
)

// A client enrols in the middle of a session, which continues with the longer list. The clients that were there before it keep their
// results like the client that came late.
func TestClientEnrolsWithinASession(t *testing.T) {
	effort.NotShort(t, "starts processes")
	m := newMachine(t)
	lead, _, late, before := m.federation(4, 12)
	serve := m.serve(demo+"/experiment.yaml", "rounds=12", "deployment.gather-s=1")
	aggregator := m.start(lead...)
	together := m.start(before...)
	together.until("registered")
	server := m.start(serve...)
	server.until("sum received")
	server.signal(syscall.SIGTERM)
	server.wait()
	client := m.start(late...)
	client.until("registered")
	server = m.start(serve...)
	for name, p := range map[string]*process{"server": server, "clients": together, "late client": client} {
		if code := p.wait(); code != cli.Done {
			t.Errorf("%s: exit code %d\n%s", name, code, p.log.String())
		}
	}
	if n := strings.Count(together.log.String(), "consented to"); n != 6 {
		t.Errorf("three clients have consented %d times, want twice each\n%s", n, together.log.String())
	}
	for _, state := range []string{"together/client-0", "together/client-1", "together/client-2", "alone"} {
		if _, err := os.Stat(m.path(state + "/result/user_embeddings.npy")); err != nil {
			t.Error(err)
		}
	}
	aggregator.signal(syscall.SIGTERM)
	aggregator.wait()
}
