package command

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/forecast"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/cli/screen"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/study"
	"github.com/fedsim/fedsim/lab/sessions"
)

// overTime is fedsim run --sessions.
func (r *runCmd) overTime(ctx context.Context, said []config.Setting, s streams) error {
	switch {
	case r.Resume || r.DryRun || r.SavePredictions || r.From != "":
		return cli.Misusef("--sessions studies several runs; leave out --resume, --dry-run, --save-predictions and --from. fedsim plan --sessions says what the sessions cost")
	case r.Format == "jsonl":
		return cli.Misusef("--sessions prints a table or json")
	case r.Sessions < 2 || r.Sessions > 1000:
		return cli.Misusef("--sessions %d: 2 to 1000 sessions can be studied", r.Sessions)
	case r.Seeds < 1:
		return cli.Misusef("--seeds %d: at least 1", r.Seeds)
	}
	if err := checkBudgetOfSessions(r.Sessions, r.TotalEpsilon, said); err != nil {
		return err
	}
	c, err := config.Resolve(said)
	if err != nil {
		return err
	}
	p := newProgress(s.err)
	defer p.Clear()
	timed := c
	algorithm.SplitBy.Set(&timed, "time") // so that times are read
	set, err := experiment.OpenData(ctx, timed, algorithm.Data.Of(c), p.Loading(algorithm.Data.Of(c)))
	if err != nil {
		return err
	}
	p.Clear()
	name := algorithm.RunName.Of(c)
	if name == "" {
		name = fmt.Sprintf("%s-%d-sessions-eps%v", algorithm.Name.Of(c), r.Sessions, r.TotalEpsilon)
	}
	dir := filepath.Join(algorithm.Out.Of(c), name)
	if _, err = os.Stat(dir); err == nil {
		return config.Errorf("%s exists already; give another --name, or remove it", dir)
	}
	d := sessions.Design{Sessions: r.Sessions, Total: r.TotalEpsilon, Shares: forecast.Shares(r.Shares), Seeds: r.Seeds}
	result, err := sessions.Run(ctx, c, set, d, dir, func(seed uint64, arm sessions.Arm, session int) {
		fmt.Fprintf(s.err, "seed %d: session %d of %d, %s\n", seed, session, r.Sessions, arm)
	})
	if err != nil {
		return err
	}
	pictures, err := result.Write(dir, study.Picture{Format: "svg", Width: 16, Low: math.NaN(), High: math.NaN()})
	if err != nil {
		return err
	}
	if r.Format == "json" {
		return cli.PrintJSON(s.out, result)
	}
	text := result.Text() + fmt.Sprintf("\nresults     %s\n", dir)
	for _, path := range pictures {
		text += fmt.Sprintf("            %s\n", path)
	}
	return screen.Print(s.out, text, []string{"fedsim", "results", dir})
}

func checkBudgetOfSessions(n int, total float64, said []config.Setting) error {
	switch {
	case n == 0 && total == 0:
		return nil
	case n == 0:
		return cli.Misusef("--total-epsilon is the budget of several sessions; say how many with --sessions, or give one run's budget with --epsilon")
	case total == 0:
		return cli.Misusef("--sessions needs the budget of all sessions together: --total-epsilon 10")
	}
	for _, setting := range said {
		if setting.Key == algorithm.Epsilon.Name {
			return cli.Misusef("%s: with --sessions each session's epsilon follows from --total-epsilon; leave it out", setting.Origin)
		}
	}
	return nil
}
