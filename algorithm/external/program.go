package external

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fedsim/fedsim/config"
)

// Variable is the environment variable with the program and its arguments: words with spaces between, or a list in JSON. It
// is no key of a configuration: neither the folder of a foreign run nor a server may choose the program.
const Variable = "FEDSIM_EXTERNAL"

// program is the process of an algorithm. It ends when its input does.
type program struct {
	mu     sync.Mutex
	cmd    *exec.Cmd
	in     io.WriteCloser
	pipe   io.ReadCloser // its output
	out    *bufio.Reader
	said   *tail
	limit  time.Duration // without any byte
	hung   atomic.Bool
	ended  atomic.Bool // by stop
	broken error       // of an earlier call
}

// seat returns the program of a role. A seat that asks first takes the program that described itself, and another
// seat starts a program of its own.
type seat func() (*program, error)

func (s seat) ask(what string, m message, most int64) (message, error) {
	p, err := s()
	if err != nil {
		return message{}, err
	}
	return p.ask(what, m, most)
}

func words() ([]string, error) {
	text := strings.TrimSpace(os.Getenv(Variable))
	if text == "" {
		return nil, config.Errorf("algorithm external runs a program of yours: set %s to it and its arguments, such as %[1]s='python3 -m fedsim.serve mine.py FedMF'", Variable)
	}
	list := strings.Fields(text)
	if strings.HasPrefix(text, "[") {
		if err := json.Unmarshal([]byte(text), &list); err != nil || len(list) == 0 {
			return nil, config.Errorf("%s: %q is no list of words in JSON", Variable, text)
		}
	}
	return list, nil
}

func start(limit time.Duration) (*program, error) {
	list, err := words()
	if err != nil {
		return nil, err
	}
	p := &program{cmd: exec.Command(list[0], list[1:]...), said: &tail{}, limit: limit}
	p.cmd.Stderr, p.cmd.WaitDelay = p.said, time.Second
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if p.pipe, err = p.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	if err = p.cmd.Start(); err != nil {
		return nil, config.Errorf("%s: %w", Variable, err)
	}
	p.out = bufio.NewReaderSize(&watched{p.pipe, p}, 1<<16)
	return p, nil
}

// stop ends the program at once, and the call that waits for it.
func (p *program) stop() {
	p.ended.Store(true)
	p.kill()
}

// stopping is the time that a program has to end when its input does.
const stopping = 300 * time.Millisecond

// kill ends the process, and what waits for it. A process that the program started may hold the pipes.
func (p *program) kill() {
	_ = p.in.Close() // a program of the Python package ends, with all processes that it started
	_ = p.pipe.Close()
	time.Sleep(stopping)
	_ = p.cmd.Process.Kill() // it may have ended meanwhile
}

// watched moves bytes, and takes a pause of more than the limit for a program that hangs.
type watched struct {
	r io.Reader
	p *program
}

func (w *watched) Read(b []byte) (n int, err error) {
	w.p.within(func() { n, err = w.r.Read(b) })
	return n, err
}

func (w *watched) Write(b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		part := b[n:min(n+1<<20, len(b))]
		w.p.within(func() {
			var k int
			k, err = w.p.in.Write(part)
			n += k
		})
	}
	return n, err
}

// within ends the program if do takes longer than the limit.
func (p *program) within(do func()) {
	t := time.AfterFunc(p.limit, func() {
		p.hung.Store(true)
		p.kill()
	})
	defer t.Stop()
	do()
}

// ask sends a request and returns the reply, whose arrays may have so many bytes. what says what the program was asked to do.
func (p *program) ask(what string, m message, most int64) (message, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken != nil {
		return message{}, p.broken
	}
	m.Version = version
	const forHeaders = 1 << 16
	var reply message
	err := m.write(&watched{p: p})
	if err == nil {
		reply, err = read(p.out, most+forHeaders)
	}
	switch {
	case err != nil:
		p.broken = p.why(what, err)
		return reply, p.broken
	case reply.Type == "error":
		p.broken = fmt.Errorf("external: %s: %s", what, strings.TrimSpace(reply.Error))
		return reply, p.broken
	}
	return reply, nil
}

// why says why the program does not answer. It is over then.
func (p *program) why(what string, err error) error {
	if errors.Is(err, errProtocol) {
		p.kill()
		_ = p.cmd.Wait()
		return fmt.Errorf("external: %s: %w; a program that prints must print to stderr", what, err)
	}
	_ = p.in.Close()
	var waited error
	p.within(func() { waited = p.cmd.Wait() }) // it may have closed its output alone
	said := p.said.String()
	if said != "" {
		said = "; it last wrote:\n" + said
	}
	switch {
	case p.ended.Load():
		return fmt.Errorf("external: %s: %w", what, context.Canceled)
	case p.hung.Load():
		return fmt.Errorf("external: %s: the program gave no sign for %v and was stopped; external.limit is the limit%s", what, p.limit, said)
	}
	return fmt.Errorf("external: %s: the program ended: %w%s", what, cmp.Or(waited, errors.New("it ended without an answer")), said)
}

// tail keeps the last bytes that a program wrote to stderr.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

// mostKept is the number of bytes that a message quotes.
const mostKept = 2000

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, b...)
	t.kept = append([]byte(nil), t.kept[max(0, len(t.kept)-mostKept):]...)
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.kept))
}
