// Package verify checks what a folder claims, for an auditor who does not trust its maker: the digests of its files, ε, and what
// the model has cost over all sessions. It computes ε by code of its own, from the releases that were recorded.
package verify

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/agreement"
	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/lineage"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/results"
)

// Verdict is the result of a check.
type Verdict string

// The verdicts.
const (
	OK        Verdict = "ok"
	Forged    Verdict = "forged"    // it contradicts what was recorded
	Unchecked Verdict = "unchecked" // the text says why, and what would check it
	Differs   Verdict = "differs"   // a repetition of a deployment leaves another model; the text says where, and what explains it
)

// Check is one claim of the folder.
type Check struct {
	Subject string  `json:"subject"` // such as files or epsilon
	Verdict Verdict `json:"verdict"`
	Text    string  `json:"text"`
}

// Report holds every check of a folder.
type Report struct {
	Folder  string   `json:"folder"`
	Kind    string   `json:"kind"` // simulation or deployment
	Program string   `json:"program"`
	Epsilon *float64 `json:"epsilon"` // computed here; null if there is none
	Delta   float64  `json:"delta"`
	Checks  []Check  `json:"checks"`
	Limits  []string `json:"limits"` // what no check here can show
}

// Options say what to check beyond the folder itself.
type Options struct {
	// Again repeats the run and compares the model: bit for bit, unless it has noise of a deployment.
	Again bool
	// Owners lists the files of a deployment's owners, or folders of them. A deployment is repeated from these.
	Owners []string
	// Start is the folder of the model that a deployment's session starts from.
	Start string
	// Repetitions is the number of repetitions of a deployment with noise.
	Repetitions int
	// Log is the folder or the address of a deployment's log of sessions, and Receipts the file of receipts that parties kept.
	Log, Receipts string
	Progress      results.Progress
	Loading       func(done, total int64) // hears how much of the data was read; may be nil
}

func (r *Report) add(v Verdict, subject, format string, args ...any) {
	r.Checks = append(r.Checks, Check{subject, v, fmt.Sprintf(format, args...)})
}

// Err returns nil if every check is OK. A forgery is an error. If there is none, an unchecked claim is an error of misuse, with
// the exit code of misuse.
func (r *Report) Err() error {
	words := map[Verdict]string{Forged: "forged", Differs: "a repetition differs", Unchecked: "not everything can be checked"}
	for _, v := range []Verdict{Forged, Differs, Unchecked} {
		var subjects []string
		for _, c := range r.Checks {
			if c.Verdict == v && !slices.Contains(subjects, c.Subject) {
				subjects = append(subjects, c.Subject)
			}
		}
		switch err := fmt.Errorf("%s: %s: %s", r.Folder, words[v], strings.Join(subjects, ", ")); {
		case len(subjects) == 0:
		case v == Unchecked:
			return cli.Misusef("%w", err)
		default:
			return err
		}
	}
	return nil
}

// Print writes the report for people.
func (r *Report) Print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s, by %s\n", r.Folder, r.Kind, r.Program)
	for _, c := range r.Checks {
		fmt.Fprintf(&b, "  %-9s  %-13s  %s\n", c.Verdict, c.Subject, c.Text)
	}
	b.WriteString("\nbeyond these checks\n")
	for _, text := range r.Limits {
		fmt.Fprintf(&b, "  - %s\n", text)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// summary is the part of summary.json that is checked, of a simulation and of a deployment.
type summary struct {
	Algorithm   string               `json:"algorithm"`
	Rounds      int                  `json:"rounds"`
	Session     string               `json:"session"`
	Clients     int                  `json:"clients"`
	Privacy     dp.Statement         `json:"privacy"`
	AllSessions *results.AllSessions `json:"all_sessions"`
}

// folder holds the claims of a folder that were read.
type folder struct {
	dir      string
	evidence *results.Evidence
	summary  summary
	own      algorithm.PastSession // the folder's own session
}

// Folder checks a folder of a simulation or of a deployment's model. An error is about a folder that cannot be read.
func Folder(ctx context.Context, dir string, o Options) (*Report, error) {
	r := &Report{Folder: dir, Kind: "simulation", Limits: []string{
		"the users: who they are, and whether their ratings are true",
		"collusion of a server with all clients, and data that a party uses outside the program",
		"whether the code draws the noise that it states: fedsim audit attacks it",
	}}
	f := &folder{dir: dir}
	err := atomicfile.ReadJSON(filepath.Join(dir, "summary.json"), &f.summary)
	if err != nil {
		return nil, cli.Misusef("%s is not the folder of a finished run or of a deployment's model: %w", dir, err)
	}
	deployed := results.IsDeployed(dir)
	if deployed {
		r.Kind = "deployment"
	}
	f.evidence, err = results.ReadEvidence(dir)
	if errors.Is(err, fs.ErrNotExist) {
		r.Program = "an unknown version"
		r.add(Unchecked, "files", "there is no %s: an older version made the folder, or the file was removed. Without it neither files nor ε are checked", results.EvidenceFile)
		return r, nil
	} else if err != nil {
		return nil, cli.Misusef("%w", err)
	}
	f.own = f.evidence.Sessions[len(f.evidence.Sessions)-1]
	r.Program = fmt.Sprintf("fedsim %s, revision %s, %s", f.evidence.Version, f.evidence.Revision, f.evidence.Platform)
	if err = f.files(r); err != nil {
		return nil, err
	}
	f.epsilon(r)
	f.history(r)
	if deployed {
		p, e := f.agreed(r)
		if p != nil {
			f.matrices(r, e)
		}
		if o.Log != "" && p != nil {
			if err = f.logged(ctx, r, e, o); err != nil {
				return nil, err
			}
		} else if o.Log == "" {
			r.Limits = append(r.Limits, "whether other sessions were held, and whether all parties saw the same: --log LOG --receipts FILE")
		}
		switch {
		case o.Again && p != nil:
			return r, f.repeat(ctx, r, p, o)
		case !o.Again:
			r.Limits = append(r.Limits, "whether the model comes from the owners' ratings: --again --owners FILES repeats the session")
		}
		return r, nil
	}
	f.rounds(r)
	e := f.configured(ctx, r, o)
	if o.Again && e != nil {
		return r, again(ctx, r, f, e, o)
	}
	if !o.Again {
		r.Limits = append(r.Limits, "whether the model comes from this configuration: --again repeats the run and compares the bits")
	}
	return r, nil
}

// files compares every file with its digest.
func (f *folder) files(r *Report) error {
	changed, err := f.evidence.Changed(f.dir)
	for _, name := range changed {
		r.add(Forged, "files", "%s is missing, or is another file than the run wrote", name)
	}
	if len(changed) == 0 {
		r.add(OK, "files", "%d files have the digests of %s", len(f.evidence.Files), results.EvidenceFile)
	}
	for _, name := range []string{"summary.json", "config.yaml", results.PublicFile, "manifest.json"} {
		if _, missing := os.Stat(filepath.Join(f.dir, name)); missing == nil && f.evidence.Files[name] == "" {
			r.add(Forged, "files", "%s is not among the files of %s", name, results.EvidenceFile)
		}
	}
	return err
}

// epsilon computes ε from the recorded releases.
func (f *folder) epsilon(r *Report) {
	stated, own := f.summary.Privacy, f.own
	r.Delta = stated.Delta
	if math.IsInf(stated.Epsilon, 1) {
		r.add(OK, "epsilon", "none is claimed: %s", map[bool]string{true: "a plain search chose the settings", false: "the run had no noise"}[stated.Chosen.By == dp.PlainSearch])
		return
	}
	var searches []dp.Search
	if own.Search != nil {
		if !own.Search.Private() {
			r.add(Forged, "search", "%s records a search with exact scores. No ε holds after it, and summary.json states ε = %v", results.EvidenceFile, stated.Epsilon)
		}
		searches = append(searches, *own.Search)
		if stated.Chosen.By == "" {
			r.add(Forged, "search", "%s records a search that chose the settings, and summary.json states none", results.EvidenceFile)
		}
	} else if stated.Chosen.By != "" {
		r.add(Forged, "search", "summary.json states a %s, and %s records none", stated.Chosen, results.EvidenceFile)
	}
	if len(own.Events) == 0 && len(searches) == 0 {
		r.add(Unchecked, "epsilon", "ε = %v rests on a proof without releases (accountant %s): read docs/privacy.md, and attack it by fedsim audit", stated.Epsilon, stated.Accountant)
		return
	}
	c, err := epsilonOf(own.Events, searches, stated.Delta, own.SamplerError)
	if err != nil {
		r.add(Unchecked, "epsilon", "%v", err)
		return
	}
	r.Epsilon = &c.epsilon
	releases := 0
	for _, e := range own.Events {
		releases += e.Count
	}
	if own.Epsilon != nil && *own.Epsilon < c.epsilon*(1-c.tolerance) {
		r.add(Forged, "epsilon", "the session's releases cost %.6g, and %s states %.6g", c.epsilon, results.EvidenceFile, *own.Epsilon)
	}
	text := fmt.Sprintf("%.6g at δ = %v for %d releases, by %s; summary.json states %.6g", c.epsilon, stated.Delta, releases, c.method, stated.Epsilon)
	if stated.Epsilon < c.epsilon*(1-c.tolerance) {
		r.add(Forged, "epsilon", "%s", text)
		return
	}
	r.add(OK, "epsilon", "%s", text)
}

// history computes what all sessions cost together, and compares the two records of them.
func (f *folder) history(r *Report) {
	sessions := f.evidence.Sessions
	record, err := lineage.Read(f.dir)
	switch {
	case err == nil:
		if is, want := ids(record.Sessions), ids(sessions); is != want {
			r.add(Forged, "history", "%s lists the sessions %s; %s lists %s", lineage.File, is, results.EvidenceFile, want)
		}
		for i := range min(len(record.Sessions), len(sessions)) - 1 {
			if fmt.Sprintf("%+v", priced(record.Sessions[i])) != fmt.Sprintf("%+v", priced(sessions[i])) {
				r.add(Forged, "history", "session %s has other releases in %s than in %s", sessions[i].Session, lineage.File, results.EvidenceFile)
			}
		}
	case !errors.Is(err, fs.ErrNotExist) && f.evidence.Files[lineage.File] != "":
		r.add(Forged, "history", "%v", err)
	}
	stated := f.summary.AllSessions
	switch {
	case len(sessions) == 1 && stated == nil:
		r.add(OK, "history", "the folder's own session, and none before it")
		return
	case stated == nil || stated.Sessions != len(sessions):
		r.add(Forged, "history", "%s lists %d sessions; summary.json states another number of them", results.EvidenceFile, len(sessions))
		return
	}
	var events []dp.Event
	var searches []dp.Search
	samplers, delta := 0.0, 0.0
	for _, s := range sessions {
		if s.Epsilon == nil {
			if stated.Epsilon != nil {
				r.add(Forged, "history", "session %s has no ε, and summary.json states ε = %v of all sessions", s.Session, *stated.Epsilon)
			} else {
				r.add(OK, "history", "session %s of %d has no ε, so no ε holds of all", s.Session, len(sessions))
			}
			return
		}
		if s.Search != nil && !slices.ContainsFunc(searches, func(q dp.Search) bool { return fmt.Sprint(q) == fmt.Sprint(*s.Search) }) {
			searches = append(searches, *s.Search)
		}
		events, samplers, delta = append(events, s.Events...), samplers+s.SamplerError, max(delta, s.Delta)
	}
	c, err := epsilonOf(events, searches, delta, samplers)
	switch {
	case err != nil:
		r.add(Unchecked, "history", "%v", err)
	case stated.Epsilon == nil:
		r.add(OK, "history", "all %d sessions cost ε = %.6g, by %s; summary.json states none, which claims no more", len(sessions), c.epsilon, c.method)
	case *stated.Epsilon < c.epsilon*(1-c.tolerance):
		r.add(Forged, "history", "all %d sessions cost ε = %.6g; summary.json states less", len(sessions), c.epsilon)
	default:
		r.add(OK, "history", "all %d sessions cost ε = %.6g, by %s; summary.json states %.6g", len(sessions), c.epsilon, c.method, *stated.Epsilon)
	}
}

// ids lists sessions in order.
func ids(sessions []algorithm.PastSession) string {
	return strings.Join(lists.Map(sessions, func(s algorithm.PastSession) string { return s.Session }), ", ")
}

// priced is the part of a session that its cost follows from.
func priced(s algorithm.PastSession) any {
	return []any{s.Session, s.Events, s.SamplerError, s.Delta, s.Search != nil}
}

// agreed derives the terms of a deployment again from what its parties agreed on, and the price of its rounds.
// It returns what they agreed on, and the experiment of that; nil if it cannot be read.
func (f *folder) agreed(r *Report) (p *agreement.Public, e *experiment.Experiment) {
	b, err := os.ReadFile(filepath.Join(f.dir, results.PublicFile))
	if err != nil {
		r.add(Unchecked, "agreement", "%v", err)
		return nil, nil
	}
	if p, err = agreement.Decode(b); err == nil {
		e, err = agreement.Open(p)
	}
	if err != nil {
		r.add(Forged, "agreement", "%s: %v", results.PublicFile, err)
		return nil, nil
	}
	session := hex.EncodeToString(p.Session[:])
	if f.own.Session != session || f.summary.Session != session {
		r.add(Forged, "agreement", "%s is of session %s; summary.json is of %s and %s of %s", results.PublicFile, session, f.summary.Session, results.EvidenceFile, f.own.Session)
	}
	if is := e.Cohort.All(); f.summary.Clients != is {
		r.add(Forged, "clients", "the agreement is of %d clients, and summary.json states %d", is, f.summary.Clients)
	}
	if p.Facts.Start != nil {
		before := lists.Map(p.Facts.Start.Sessions, func(s agreement.PastSession) string { return s.Session })
		if is := append(before, session); strings.Join(is, ", ") != ids(f.evidence.Sessions) {
			r.add(Forged, "history", "the agreement starts from the sessions %s", strings.Join(before, ", "))
		}
	} else if len(f.evidence.Sessions) > 1 {
		r.add(Forged, "history", "the agreement starts from nothing, and %s lists %d sessions", results.EvidenceFile, len(f.evidence.Sessions))
	}
	if text := f.compare(r, e, f.summary.Rounds); text != "" {
		r.add(OK, "agreement", "bounds, noise and cohort of %s follow from its configuration; %s", results.PublicFile, text)
	}
	return p, e
}

// compare compares the recorded releases with the releases that an experiment plans for some rounds. It returns a sentence about what
// it found, or adds a forgery and returns "". More cannot have been charged. Less is possible where a unit was not in every round.
func (f *folder) compare(r *Report, e *experiment.Experiment, rounds int) string {
	deployed := results.IsDeployed(f.dir)
	switch {
	case !e.Private():
		return "it plans no noise"
	case len(f.own.Events) == 0:
		return "it plans noise whose cost is proved without releases, or was charged with a search"
	case !deployed && e.Schedule.Noise().Kind == protocol.TwoRound:
		return "it plans noise in two rounds, whose variance depends on the clients that were lost: --again repeats them"
	}
	planned, err := e.Charges(rounds)
	if err != nil {
		r.add(Forged, "rounds", "%v", err)
		return ""
	}
	is, want := counts(f.own.Events), counts(planned)
	lost := algorithm.Dropout.Value(e.Config) + algorithm.SitOut.Value(e.Config) + algorithm.Away.Value(e.Config) + algorithm.Leave.Value(e.Config)
	full := deployed || lost == 0 && f.summary.Privacy.Turns == f.summary.Privacy.Rounds
	for x, n := range is {
		if want[x] == 0 {
			r.add(Forged, "noise", "a %s release of variance %v and bounds %v and %v was recorded, which is not planned", x.Mechanism, x.Variance, x.L2, x.L1)
			return ""
		} else if n > want[x] {
			r.add(Forged, "rounds", "%d releases were recorded where %d rounds plan %d", n, rounds, want[x])
			return ""
		}
	}
	for x, n := range want {
		if full && is[x] < n {
			r.add(Forged, "rounds", "%d releases of variance %v were recorded where %d rounds plan %d", is[x], x.Variance, rounds, n)
			return ""
		}
	}
	return fmt.Sprintf("it plans the recorded noise and bounds, and at least as many releases in %d rounds", rounds)
}

// counts returns how often each release was made.
func counts(all []dp.Event) map[dp.Event]int {
	n := make(map[dp.Event]int)
	for _, x := range all {
		c := x.Count
		x.Count = 1
		n[x] += c
	}
	return n
}

// rounds checks that metrics.jsonl has every round, and ends with the stated ε.
func (f *folder) rounds(r *Report) {
	b, err := os.ReadFile(filepath.Join(f.dir, "metrics.jsonl"))
	if err != nil {
		r.add(Unchecked, "rounds", "%v", err)
		return
	}
	d, n := json.NewDecoder(strings.NewReader(string(b))), 0
	var last results.Metrics
	for d.More() {
		last = results.Metrics{}
		if err = d.Decode(&last); err != nil {
			r.add(Forged, "rounds", "metrics.jsonl: %v", err)
			return
		}
		if n++; last.Round != n {
			r.add(Forged, "rounds", "metrics.jsonl has round %d in place of round %d", last.Round, n)
			return
		}
	}
	switch {
	case n != f.summary.Rounds:
		r.add(Forged, "rounds", "metrics.jsonl has %d rounds, and summary.json states %d", n, f.summary.Rounds)
	case last.Epsilon != nil && *last.Epsilon != f.summary.Privacy.Epsilon:
		r.add(Forged, "epsilon", "metrics.jsonl ends with ε = %v, and summary.json states %v", *last.Epsilon, f.summary.Privacy.Epsilon)
	default:
		r.add(OK, "rounds", "%d rounds, each there; the last has the stated ε", n)
	}
}

// configured opens the experiment of a simulation again. It compares data and plan with the folder. It returns nil if the
// experiment cannot be opened.
func (f *folder) configured(ctx context.Context, r *Report, o Options) *experiment.Experiment {
	c, m, err := results.ReadConfig(f.dir)
	if err != nil {
		r.add(Forged, "configuration", "%v", err)
		return nil
	}
	if is := algorithm.Name.Of(c); is != f.summary.Algorithm {
		r.add(Forged, "configuration", "config.yaml is of %s, and summary.json of %s", is, f.summary.Algorithm)
	}
	e, err := experiment.Open(ctx, c, o.Loading)
	if err != nil {
		r.add(Unchecked, "data", "the data %s, or what else config.yaml needs, is not here: %v", algorithm.Data.Of(c), err)
		return nil
	}
	if e.Data.Digest != m.DataDigest || e.Split.Digest != m.SplitDigest {
		r.add(Forged, "data", "the ratings of %s have digest %.16s..., their division %.16s...; the run was on %.16s... and %.16s...",
			algorithm.Data.Of(c), e.Data.Digest, e.Split.Digest, m.DataDigest, m.SplitDigest)
		return e
	}
	r.add(OK, "data", "the ratings and their division have the recorded digests")
	if session := e.Session(); e.About().Federated() && f.own.Session != hex.EncodeToString(session[:]) {
		r.add(Forged, "configuration", "this configuration is session %x, and %s is of %s", session, results.EvidenceFile, f.own.Session)
	}
	if text := f.compare(r, e, e.Schedule.Rounds()); text != "" {
		r.add(OK, "configuration", "%s", text)
	}
	return e
}
