package external

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/locked"
	"github.com/fedsim/fedsim/internal/version"
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

// Program identifies the program by what its files hold, wherever they are, and by its other words. Its files are the command, and each
// argument that is a file with all files beside it that have the same ending, which the program may import.
func (x *instance) Program() string {
	list, _ := words() // the program has started
	var all []string
	for k, word := range list {
		files := []string{word}
		if k == 0 {
			files[0], _ = exec.LookPath(word)
		} else if ext := filepath.Ext(word); ext != "" {
			beside, _ := filepath.Glob(filepath.Join(filepath.Dir(word), "*"+ext))
			files = append(files, beside...)
		}
		if i, err := os.Stat(files[0]); err != nil || !i.Mode().IsRegular() {
			files, all = nil, append(all, word)
		}
		for _, file := range files {
			content, _ := version.Digest(file) // "" of a folder
			all = append(all, content)
		}
	}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(all, "\x00"))))
}

// apart puts a command and what it starts into a group of processes, and end ends the group. Without groups a process ends alone.
var (
	apart = func(*exec.Cmd) {}
	end   = func(p *os.Process) { _ = p.Kill() }
)

func start(limit time.Duration) (*program, error) {
	list, err := words()
	if err != nil {
		return nil, err
	}
	p := &program{cmd: exec.Command(list[0], list[1:]...), said: &tail{}, limit: limit}
	p.cmd.Stderr, p.cmd.WaitDelay = p.said, time.Second
	apart(p.cmd)
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if p.pipe, err = p.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	if err = p.cmd.Start(); err != nil {
		return nil, config.Errorf("%s: %w", Variable, err)
	}
	p.out = bufio.NewReaderSize(&watched{p.pipe, p}, mostHeader)
	return p, nil
}

// stopping is the time that a program has to end when its input does.
const stopping = 300 * time.Millisecond

// kill ends programs with the processes that they started, and what waits for them.
func kill(all ...*program) {
	for _, p := range all {
		_ = p.in.Close() // a program of the Python package ends
		_ = p.pipe.Close()
	}
	time.Sleep(stopping)
	for _, p := range all {
		end(p.cmd.Process) // it may have ended meanwhile
	}
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
		kill(p)
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
	m.Version = protocolVersion
	const forHeaders = 1 << 16
	reply, err := message{}, p.unasked()
	if err == nil {
		err = m.write(&watched{p: p})
	}
	if err == nil {
		reply, err = read(p.out, most+forHeaders)
	}
	if want := strings.TrimSuffix(m.Type, "e") + "ed"; err == nil && reply.Type != want && reply.Type != "error" {
		err = fmt.Errorf("%w: it answered %.60q, and %q is due", errProtocol, reply.Type, want)
	}
	switch {
	case err != nil:
		p.broken = p.why(what, err)
	case reply.Type == "error":
		p.broken = fmt.Errorf("external: %s: %s", what, strings.TrimSpace(reply.Error))
	}
	return reply, p.broken
}

// unasked refuses a program that wrote more than its answers: the next answer would belong to an earlier request.
func (p *program) unasked() error {
	const look = 100 * time.Microsecond
	if pipe, ok := p.pipe.(interface{ SetReadDeadline(time.Time) error }); p.out.Buffered() == 0 && ok && pipe.SetReadDeadline(time.Now().Add(look)) == nil {
		_, _ = p.out.Peek(1)
		_ = pipe.SetReadDeadline(time.Time{})
	}
	if more, _ := p.out.Peek(min(p.out.Buffered(), 60)); len(more) > 0 {
		return fmt.Errorf("%w: it wrote more than the answer: %q", errProtocol, more)
	}
	return nil
}

// why says why the program does not answer. It is over then.
func (p *program) why(what string, err error) error {
	if errors.Is(err, errProtocol) {
		kill(p)
		_ = p.cmd.Wait()
		return fmt.Errorf("external: %s: %w; a program that prints must print to stderr", what, err)
	}
	_ = p.in.Close()
	var waited error
	p.within(func() { waited = p.cmd.Wait() }) // it may have closed its output alone
	end(p.cmd.Process)
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
	locked.Do(&t.mu, func() {
		t.kept = append(t.kept, b...)
		t.kept = append([]byte(nil), t.kept[max(0, len(t.kept)-mostKept):]...)
	})
	return len(b), nil
}

func (t *tail) String() string {
	return locked.Get(&t.mu, func() string { return strings.TrimSpace(string(t.kept)) })
}
