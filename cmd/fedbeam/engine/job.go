package engine

import (
	"context"
	"fmt"
	"sync"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dp/noise"
	"github.com/fedsim/fedsim/internal/experiment"
	_ "github.com/fedsim/fedsim/internal/families" // what is built in
	"github.com/fedsim/fedsim/internal/training"
	"github.com/fedsim/fedsim/internal/version"
	"github.com/fedsim/fedsim/sim"
)

// Job says to a worker what it is part of. It is all that a worker is told besides the elements: it opens the
// experiment by itself, once, from data that it reaches by the same name.
type Job struct {
	Version  string           // of the program, which the workers must be of, too
	Settings []config.Setting // of the experiment, what is not at its default
	Identity string           // of the experiment that Settings must give, see training.Identity
	Exchange string           // the folder that workers and the program share
	Shards   int
}

// newJob describes an experiment.
func newJob(e *experiment.Experiment, x exchange, shards int) Job {
	asked := e.Asked
	for _, key := range []*config.Key{algorithm.Out.Key, algorithm.RunName.Key} { // the program's
		asked.Reset(key)
	}
	j := Job{Version: version.Program(), Identity: training.Identity(e), Exchange: string(x), Shards: shards}
	for _, key := range asked.Differs(config.Config{}) {
		j.Settings = append(j.Settings, config.Setting{Key: key.Name, Value: asked.Text(key), Origin: key.Name})
	}
	return j
}

// site is an experiment in a worker's process, with the trainers of the shards that the process computes.
type site struct {
	e       *experiment.Experiment
	entropy *sim.Entropy
	tables  noise.Tables

	mu    sync.Mutex
	crews map[int]*crew // by shard
	fresh []*experiment.Federation

	reading sync.Mutex
	file    string // that latest was read from
	latest  *turn
}

// turn is the server's side before a round, which is read once for all shards.
func (s *site) turn(ctx context.Context, j Job, round int) (*turn, error) {
	s.reading.Lock()
	defer s.reading.Unlock()
	x := exchange(j.Exchange)
	if file := x.turnFile(round); s.file != file {
		b, err := x.read(ctx, file)
		if err != nil {
			return nil, err
		}
		t, err := decodeTurn(b)
		if err != nil {
			return nil, err
		}
		s.file, s.latest = file, t
	}
	return s.latest, nil
}

func newSite(e *experiment.Experiment) *site {
	return &site{e: e, entropy: sim.EntropyOf(algorithm.Seed.Of(e.Config), e.Session()), crews: make(map[int]*crew)}
}

// sites holds the sites of the process, by identity. The workers of one process share them.
var sites = struct {
	sync.Mutex

	known map[string]*opening
}{known: make(map[string]*opening)}

// opening is a site that is opened once.
type opening struct {
	once sync.Once
	site *site
	err  error
}

func openingOf(identity string) *opening {
	sites.Lock()
	defer sites.Unlock()
	o := sites.known[identity]
	if o == nil {
		o = new(opening)
		sites.known[identity] = o
	}
	return o
}

// host makes an experiment known to the workers of this process, so that they do not load its data again. forget
// undoes that.
func host(e *experiment.Experiment) (forget func()) {
	identity := training.Identity(e)
	o := openingOf(identity)
	o.once.Do(func() { o.site = newSite(e) })
	return func() {
		sites.Lock()
		defer sites.Unlock()
		delete(sites.known, identity)
	}
}

// site opens the experiment, or finds it open.
func (j Job) site(ctx context.Context) (*site, error) {
	o := openingOf(j.Identity)
	o.once.Do(func() { o.site, o.err = j.open(ctx) })
	return o.site, o.err
}

func (j Job) open(ctx context.Context) (*site, error) {
	if here := version.Program(); here != j.Version {
		return nil, fmt.Errorf("a worker is of fedbeam %s, and the program of %s, which may compute other bits", here, j.Version)
	}
	c, err := config.Resolve(j.Settings)
	if err != nil {
		return nil, fmt.Errorf("a worker cannot open the experiment: %w", err)
	}
	e, err := Open(ctx, c, nil)
	if err != nil {
		return nil, fmt.Errorf("a worker cannot open the experiment; its data must be there under the same name, %q: %w", algorithm.Data.Of(c), err)
	}
	if got := training.Identity(e); got != j.Identity {
		return nil, fmt.Errorf("a worker opened another experiment, %s, than the run is of, %s; the data of %q differ, or the versions of the program", got, j.Identity, algorithm.Data.Of(c))
	}
	return newSite(e), nil
}
