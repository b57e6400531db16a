package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/libp2p/go-libp2p/gologshim"
	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/internal/cli"
)

// Each line of a log is an object with a level, a role, a time in milliseconds of UTC and a message. The first line says the version and the
// call, without the id of a user. The last is the error that the process ends with.
func TestLogHasOneFormat(t *testing.T) {
	o := newOffice(t)
	must(t, o.invite("--name", "Films", "--clients", "1")...)
	file := o.path("experiment.yaml")
	write(t, "algorithm: lfl-sgdmf\ndropout: 0.5\n", file)
	invitation := []string{"--state", o.path("state"), "--invitation"}
	for role, args := range map[string][]string{
		"server":     append([]string{"server", file, "--items", "nowhere"}, append(invitation, o.path("out/server.json"))...),
		"client":     append([]string{"client", "--data", "nowhere", "--user", "secret-id", "--relay", "nowhere"}, append(invitation, o.path("out/client-0.json"))...),
		"aggregator": {"aggregator", "--key", o.path("aggregator.key"), "--federation", o.path("federation.json"), "--state", o.path("a"), "--tickets", "nowhere", "--listen", "nowhere"},
	} {
		var out, log bytes.Buffer
		code := run(t.Context(), args, &streams{out: &out, err: &log})
		stderr := log.String()
		if code != cli.Misuse && code != cli.Failed {
			t.Errorf("%s: exit code %d", role, code)
		}
		lines := strings.Split(strings.TrimSpace(stderr), "\n")
		for n, line := range lines {
			var x struct{ Level, Role, Time, Message, Version, Federation string }
			err := json.Unmarshal([]byte(line), &x)
			if err != nil || x.Level == "" || x.Role != role || x.Message == "" || !regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`).MatchString(x.Time) {
				t.Errorf("%s: %s: %v", role, line, err)
			}
			if first := n == 0; first != (x.Message == "starts" && x.Version != "" && x.Federation == "Films") {
				t.Errorf("%s: line %d is %s", role, n, line)
			}
			if last := n == len(lines)-1; last != (x.Message == "ended") || last && !strings.Contains(line, fmt.Sprintf(`"exit":%d`, code)) {
				t.Errorf("%s: line %d of %d is %s", role, n, len(lines), line)
			}
		}
		if strings.Contains(stderr, "secret-id") || role == "client" && !strings.Contains(lines[0], `"--user","..."`) {
			t.Errorf("%s: it was called with %s", role, lines[0])
		}
	}
}

// An error of libp2p is a line like others.
func TestLinesOfLibp2p(t *testing.T) {
	var out strings.Builder
	s := &streams{err: &out, level: zerolog.InfoLevel}
	log := s.log("aggregator")
	gologshim.Logger("swarm").Error("no room", "peers", 3)
	gologshim.Logger("swarm").Warn("left out")
	log.Info().Msg("one more")
	if lines := strings.Split(out.String(), "\n"); len(lines) != 3 || !strings.Contains(lines[0], `"level":"error"`) || !strings.Contains(lines[0], `"role":"aggregator"`) || !strings.Contains(lines[0], `"message":"no room"`) {
		t.Errorf("the log is %q", lines)
	}
}

// A model that a full disk has no room for is not lost: the error says what to do.
func TestFullDiskAtTheEnd(t *testing.T) {
	for _, err := range []error{syscall.ENOSPC, syscall.EFBIG} {
		got := full(&os.PathError{Op: "write", Path: "state/model", Err: err})
		if !errors.Is(got, err) || !strings.Contains(got.Error(), "make room, and start again") {
			t.Errorf("%v", got)
		}
	}
	if other := errors.New("other"); full(other) != other || full(nil) != nil {
		t.Error("another error is changed")
	}
}
