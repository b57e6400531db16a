package attack

import (
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/internal/cli/screen"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/lab/figures"
	"github.com/fedsim/fedsim/lab/page"
)

// notShown lists the limits of attacks that the page states beside every picture.
var notShown = []string{
	"An attack that fails proves nothing. Another attacker, with more runs or a better idea, may succeed; only ε bounds all of them, and these here are a few that are known.",
	"Attacks find a lower bound on what leaks, ε is an upper bound, and the truth lies between. Where ε = 20 allows everything and an attack finds nothing, neither says which of the two is near.",
	"The targets are the most active users and some drawn at random. A user whose tastes no other shares may be told more easily than all of them.",
	"The attacker of membership knows all ratings, whom it is after included, and the settings, and has many runs to learn from: real ones know less. It does not choose ratings to be found, as the worst case of ε may.",
	"The simulator knows the truth, who was in a run and what every user rated, and measures with it. One process sees all data: nothing here protects any user.",
	"A model that helps to guess a favourite genre does so of people who were never in it as well. Only what it helps more where they were is a leak, and ε bounds only that.",
	"Intervals are of 95% over the runs or targets of this measurement: they say nothing of other data, other settings or another attacker.",
	"Without noise other defaults hold, longer embeddings say: lines to ε = ∞ join runs that differ in more than the noise.",
}

// Section returns the section of a page on attacks. The list holds at least one report.
func Section(list []*Report) page.Section {
	s := page.Section{ID: "attacks", Title: "Results of attacks in practice", NotShown: notShown, Words: []string{
		"These attacks were made on simulated runs, each figure in that run or in runs like it. An AUC of 0.5 is guessing: it is the chance that a target that was in a run looks more like it than a target that was not. " +
			"The limit is the most that ε allows any attack.",
	}}
	for _, m := range methods() {
		of := slices.DeleteFunc(slices.Clone(list), func(r *Report) bool { return r.Kind != m.kind })
		if len(of) > 0 {
			s.Figures = append(s.Figures, m.figures(of, ladder(of))...)
		}
	}
	for _, r := range list {
		head, rows := r.table()
		s.Tables = append(s.Tables, page.Table{Caption: r.text("tried") + "; with intervals of 95%", Head: head, Rows: rows})
		s.Repeat = append(s.Repeat, r.text("command"))
	}
	return s
}

//go:embed report.tmpl
var texts string

var templates = template.Must(template.New("report").Funcs(template.FuncMap{
	"lies":    Kind.lies,
	"name":    (*Report).name,
	"percent": func(x float64) string { return fmt.Sprintf("%.0f%%", 100*x) },
	"quoted":  func(s string) string { return screen.Quoted([]string{s})[0] },
}).Parse(texts))

// text fills one of the templates in: "command" repeats the attack, and "tried" says in a sentence how it was made.
func (r *Report) text(name string) string {
	var b strings.Builder
	if err := templates.ExecuteTemplate(&b, name, r); err != nil {
		panic(err) // a fault of the template: it cannot fail on a report
	}
	return b.String()
}

// name is an algorithm with what was asked for besides, and whether it is the control.
func (r *Report) name() string {
	name := r.Algorithm
	for _, s := range r.Settings {
		key, _, _ := strings.Cut(s, "=")
		if !slices.Contains([]string{algorithm.Name.Name, algorithm.Data.Name, algorithm.Seed.Name}, key) {
			name += ", " + strings.Replace(s, "=", " ", 1)
		}
	}
	if r.Control {
		name += " (control)"
	}
	return name
}

// ladder are the budgets of some attacks, ascending.
func ladder(list []*Report) (budgets []Epsilon) {
	for _, r := range list {
		budgets = append(budgets, lists.Map(r.Budgets, func(at At) Epsilon { return at.Epsilon })...)
	}
	slices.Sort(budgets)
	return slices.Compact(budgets)
}

// byBudget begins a figure over budgets, which are places of their own: there is no room for ∞ on a line of numbers.
func byBudget(id, title, y, note string, budgets []Epsilon) page.Drawn {
	d := page.Drawn{Figure: figures.Figure{ID: id, Title: title, X: "ε of the whole run (smaller is more private)", Y: y, Note: note}}
	for _, e := range budgets {
		d.Ticks = append(d.Ticks, e.sign())
	}
	return d
}

// sign is a budget in a picture.
func (e Epsilon) sign() string { return strings.Replace(e.String(), "inf", "∞", 1) }

// line adds a series of what is measured at each budget; where there is nothing it has no point.
func line(d *page.Drawn, name string, budgets []Epsilon, r *Report, of func(*At) *Interval) {
	s := figures.Series{Name: name, Colour: len(d.Series), Runs: 1}
	for k, e := range budgets {
		for i := range r.Budgets {
			if at := &r.Budgets[i]; at.Epsilon == e {
				if v := of(at); v != nil {
					s.X, s.Y, s.Low, s.High = append(s.X, float64(k)), append(s.Y, v.Value), append(s.Low, v.Low), append(s.High, v.High)
				}
			}
		}
	}
	if len(s.X) > 0 {
		d.Series = append(d.Series, s)
	}
}

// level adds a horizontal line to compare with.
func level(d *page.Drawn, name string, y float64) {
	d.Series = append(d.Series, figures.Series{Name: name, X: []float64{0, float64(len(d.Ticks) - 1)}, Y: []float64{y, y}, Level: true})
}

// numbered puts the numbers behind a figure.
func numbered(d page.Drawn) page.Drawn {
	d.Numbers = page.Numbers(&d.Figure)
	return d
}

// Report holds the results of an attack at each budget, and how it was made.
type Report struct {
	Kind      Kind    `json:"attack"`
	Algorithm string  `json:"algorithm"`
	Data      string  `json:"data"`
	Unit      dp.Unit `json:"unit"`
	Seed      uint64  `json:"seed"`
	Shadows   int     `json:"shadows"`
	Targets   int     `json:"targets"`
	Control   bool    `json:"control"`
	// Liars are the shares of clients that lied, of [Promote] and [Degrade].
	Liars []float64 `json:"liars,omitempty"`
	// Settings lists the settings of the command, KEY=VALUE, except the budgets and the workers.
	Settings []string `json:"settings"`
	// Budgets are the attacks, in the order in which they were asked for.
	Budgets []At `json:"budgets"`
}

// At is an attack at a budget. Of its kinds it has one.
type At struct {
	Epsilon Epsilon `json:"epsilon"`
	Delta   float64 `json:"delta"` // 0 without noise
	// Limit bounds every attack of membership; nil if the budget sets no bound on the attack.
	Limit          *Limit             `json:"limit,omitempty"`
	Membership     []MembershipResult `json:"membership,omitempty"`
	Attribute      *Attribute         `json:"attribute,omitempty"`
	Reconstruction []Rebuilt          `json:"reconstruction,omitempty"`
	Lies           []Lie              `json:"lies,omitempty"`
}

// MembershipResult holds how well one view of the attacker tells targets in a run from targets outside it.
type MembershipResult struct {
	// From names what the attacker sees: the model that is released in the end, or the sums of all rounds.
	From   string   `json:"from"`
	Trials int      `json:"trials"` // targets in held-out runs, half of them in
	AUC    Interval `json:"auc"`
	Active Interval `json:"auc_active"` // of the half of the targets with the most ratings
	Random Interval `json:"auc_random"` // of the others
	// FPR is the largest rate of false alarms of at most 1% that a threshold has, and TPR what is found there.
	FPR float64  `json:"fpr"`
	TPR Interval `json:"tpr"`
	ROC Curve    `json:"roc"`
}

// seen returns what an attack of membership or reconstruction finds in one view; nil where there is none.
func (at *At) seen(from string) *Interval {
	for i := range at.Membership {
		if x := &at.Membership[i]; x.From == from {
			return &x.AUC
		}
	}
	for i := range at.Reconstruction {
		if x := &at.Reconstruction[i]; x.From == from {
			return &x.Precision
		}
	}
	return nil
}

// figureOfEach draws a figure of each report.
func figureOfEach(draw func(r *Report, budgets []Epsilon, i int) page.Drawn) func([]*Report, []Epsilon) []page.Drawn {
	return func(list []*Report, budgets []Epsilon) (all []page.Drawn) {
		for i, r := range list {
			all = append(all, draw(r, budgets, i))
		}
		return all
	}
}

// report begins one of what was asked for.
func (a *attacker) report(said []config.Setting) *Report {
	e := a.full
	settings := []string{}
	for _, s := range said {
		if s.Key != algorithm.Epsilon.Name && s.Key != algorithm.Workers.Name {
			settings = append(settings, s.Key+"="+s.Value)
		}
	}
	return &Report{Kind: a.cfg.Kind, Algorithm: e.About().Name, Data: e.Data.Name, Unit: algorithm.UnitOf(e.Config), Seed: a.seed,
		Shadows: a.cfg.Shadows, Targets: a.cfg.Targets, Control: a.cfg.Control, Liars: a.cfg.Liars, Settings: settings}
}

// String is a value with its interval.
func (i Interval) String() string { return fmt.Sprintf("%.3f (%.3f to %.3f)", i.Value, i.Low, i.High) }

// Print writes a table.
func (r *Report) Print(w io.Writer) error {
	width := screen.Width(w)
	head, rows := r.table()
	words := methods()[slices.Index(Kinds(), r.Kind)].words
	_, err := io.WriteString(w, screen.Fit("tried: "+r.text("tried")+"\n", width)+screen.Table(append([][]string{head}, rows...), words, width))
	return err
}

// table returns the results as a table, a row for each budget and view.
func (r *Report) table() (head []string, rows [][]string) {
	lines := lists.Map(strings.Split(r.text("table"), "\n"), func(line string) []string { return strings.Split(line, "\t") })
	return lines[0], lines[1:]
}

// attackFiles begins the name of every file with a report; .json ends it.
const attackFiles = "attack-"

// Write leaves the report in a folder, which it makes, and returns the path. The name has the attack, the algorithm and
// a digest of what was asked for: the same again takes the place of what was there.
func (r *Report) Write(dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return "", err
	}
	digest := sha256.Sum256([]byte(r.text("command")))
	name := fmt.Sprintf("%s%s-%s-%x.json", attackFiles, r.Kind, r.Algorithm, digest[:4])
	path := filepath.Join(dir, name)
	return path, atomicfile.WriteJSON(path, r)
}

// Load reads the reports in folders, at any depth, in the order of their paths. It skips files and folders whose names
// begin with a dot. A report that cannot be read is left out, and warn is called with the reason; if no
// report of a folder can be read, Load returns an error.
func Load(warn func(error), dirs ...string) ([]*Report, error) {
	var list []*Report
	for _, dir := range dirs {
		before := len(list)
		var damaged []error
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil
			case err != nil:
				return err
			case d.IsDir() && path != dir && d.Name()[0] == '.':
				return filepath.SkipDir
			case d.IsDir() || !strings.HasPrefix(d.Name(), attackFiles) || filepath.Ext(path) != ".json":
				return nil
			}
			r, err := readAttack(path)
			if err != nil {
				damaged = append(damaged, err)
				return nil
			}
			list = append(list, r)
			return nil
		})
		if err != nil {
			return nil, err
		}
		if len(list) == before && len(damaged) > 0 {
			return nil, errors.Join(damaged...)
		}
		for _, err := range damaged {
			warn(fmt.Errorf("left out: %w", err))
		}
	}
	return list, nil
}

func readAttack(path string) (*Report, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := new(Report)
	if err = json.Unmarshal(b, r); err == nil {
		err = r.check()
	}
	if err != nil {
		return nil, config.Errorf("%s is no report of fedsim attack: %w", path, err)
	}
	return r, nil
}

// check refuses a report that lacks the results of its attack.
func (r *Report) check() error {
	if len(r.Budgets) == 0 {
		return errors.New("it has no budgets")
	}
	if !slices.Contains(Kinds(), r.Kind) {
		return fmt.Errorf("there is no attack %q", r.Kind)
	}
	for i := range r.Budgets {
		one := *r
		one.Budgets = r.Budgets[i : i+1]
		if _, rows := one.table(); len(rows) == 0 {
			return fmt.Errorf("it has nothing of attack %q at epsilon %s", r.Kind, r.Budgets[i].Epsilon)
		}
	}
	return nil
}
