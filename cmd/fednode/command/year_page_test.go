package command

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fedsim/fedsim/internal/testutil"
)

const aYear = "../../../node/a-year.md"

// trains matches the command of a session that leaves a model.
var trains = regexp.MustCompile(`> session-[2-8]\.log`)

// TestAYear runs the page's commands one by one, as TestThreeMachines does, with 60 devices and eight sessions. Meanwhile
// it asks the service for recommendations: each answer must be there, and the answers are of all eight models.
func TestAYear(t *testing.T) {
	long(t)
	if _, err := exec.LookPath("xargs"); err != nil {
		t.Skip("the page needs xargs")
	}
	text, err := os.ReadFile(aYear)
	if err != nil {
		t.Fatal(err)
	}
	p := newPage(t)
	p.ports = append(p.ports, port{"8080", testutil.Port(t)})
	p.organisations(string(text))
	var out []string
	waited := make(map[*terminal]bool)
	ask := newAsking(t, "http://127.0.0.2:"+p.ports[len(p.ports)-1].here)
	for _, part := range parsePage(string(text)) {
		if e := part.entry; e != nil {
			p.play(e)
			part.lines = e.lines()
			command := strings.Join(e.command, "\n")
			for name, x := range p.terminals {
				switch {
				case x.kill && !waited[x]:
					p.gone(x)
					waited[x] = true
				case strings.Contains(command, "kill -HUP PID-OF-"+strings.ToUpper(name)):
					p.reads(x, "read again")
				}
			}
			if e.terminal == "serve" {
				p.reads(p.terminals["serve"], "serving ")
				ask.start()
			}
			if trains.MatchString(command) {
				ask.model()
			}
		}
		out = append(out, part.lines...)
	}
	if n := ask.stop(); n != 8 {
		t.Errorf("the service answered with %d models, want 8", n)
	}
	for _, x := range p.terminals {
		if !waited[x] {
			_ = x.cmd.Process.Kill()
		}
	}
	if *update {
		if err = os.WriteFile(aYear, []byte(strings.Join(out, "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// organisations prepares the machines of the page: each organisation has the ratings of its users, and the server the films.
func (p *page) organisations(text string) {
	p.t.Helper()
	_, rest, _ := strings.Cut(text, "```yaml\n")
	experiment, _, ok := strings.Cut(rest, "```")
	if !ok {
		p.t.Fatal("the page has no experiment")
	}
	write(p.t, experiment, p.root, "server", "experiment.yaml")
	movies := strings.SplitAfter(readFile(p.t, demo, "items", "movies.csv"), "\n")
	write(p.t, strings.Join(movies, ""), p.root, "server", "all-items", "movies.csv")
	write(p.t, strings.Join(movies[:len(movies)-3], ""), p.root, "server", "items", "movies.csv") // the last piece is empty
	f, err := os.Open(filepath.Join(demo, "ratings.csv"))
	if err != nil {
		p.t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // it is read
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		p.t.Fatal(err)
	}
	var users strings.Builder
	for u := range 82 {
		fmt.Fprintln(&users, u+1)
	}
	for name, own := range map[string][]int{"north": append(span(0, 20), 60, 61), "south": span(20, 40), "west": span(40, 60), "east": span(62, 82)} {
		var b strings.Builder
		fmt.Fprintln(&b, strings.Join(rows[0], ","))
		for _, u := range own {
			for _, row := range rows[1:] {
				if row[0] == strconv.Itoa(u%20+1) {
					fmt.Fprintln(&b, strings.Join(append([]string{strconv.Itoa(u + 1)}, row[1:]...), ","))
				}
			}
		}
		write(p.t, b.String(), p.root, name, "ratings.csv")
		write(p.t, users.String(), p.root, name, "users.txt")
	}
	p.buildFedsim()
}

// buildFedsim has fedsim beside fednode.
func (p *page) buildFedsim() {
	p.t.Helper()
	if out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", filepath.Join(p.root, "fedsim"), "../../fedsim").CombinedOutput(); err != nil {
		p.t.Fatalf("go build: %v\n%s", err, out)
	}
}

// span lists the numbers from one up to another.
func span(from, to int) (list []int) {
	for i := from; i < to; i++ {
		list = append(list, i)
	}
	return list
}

// gone waits for the end of a process that was told to end.
func (p *page) gone(x *terminal) {
	p.t.Helper()
	go func() {
		for range x.lines {
		}
	}()
	select {
	case <-x.ended: //nolint:errcheck // it was killed
	case <-time.After(time.Minute):
		p.t.Fatalf("%s goes on", x.name)
	}
}

// reads waits for a line of a terminal's that holds a text.
func (p *page) reads(x *terminal, text string) {
	p.t.Helper()
	late := time.After(time.Minute)
	for {
		select {
		case line, ok := <-x.lines:
			if !ok {
				p.t.Fatalf("%s ended before %q", x.name, text)
			}
			if strings.Contains(line, text) {
				return
			}
		case <-late:
			p.t.Fatalf("%s does not say %q", x.name, text)
		}
	}
}

// asking asks a service all the time.
type asking struct {
	t      *testing.T
	url    string
	cancel context.CancelFunc
	ended  chan struct{}
	latest atomic.Value // the model that answered last
	models []string
}

func newAsking(t *testing.T, url string) *asking {
	return &asking{t: t, url: url, cancel: func() {}, ended: make(chan struct{})}
}

func (a *asking) start() {
	ctx, cancel := context.WithCancel(a.t.Context())
	a.cancel = cancel
	go func() {
		defer close(a.ended)
		for ctx.Err() == nil {
			if name, err := a.once(); err != nil {
				a.t.Error(err)
				return
			} else {
				a.latest.Store(name)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}()
	a.model()
}

// once asks once, and returns the model that answers.
func (a *asking) once() (string, error) {
	r, err := http.Post(a.url+"/recommend", "application/json", strings.NewReader(`{"ratings": [{"item": "1", "rating": 5}, {"item": "2", "rating": 1}]}`))
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(r.Body)
	if err = errors.Join(err, r.Body.Close()); err != nil || r.StatusCode != http.StatusOK {
		return "", fmt.Errorf("the service answers with %s %s, %v", r.Status, text, err)
	}
	return r.Header.Get("Fedsim-Model"), nil
}

// model waits for answers of another model than before.
func (a *asking) model() {
	a.t.Helper()
	if a.t.Failed() {
		return
	}
	for late := time.Now().Add(time.Minute); time.Now().Before(late); time.Sleep(50 * time.Millisecond) {
		if name, ok := a.latest.Load().(string); ok && !slices.Contains(a.models, name) {
			a.models = append(a.models, name)
			return
		}
	}
}

// stop ends the questions, and returns the number of models that answered.
func (a *asking) stop() int {
	a.cancel()
	<-a.ended
	return len(a.models)
}
