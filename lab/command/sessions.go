package command

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/cli/screen"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/study"
	"github.com/fedsim/fedsim/internal/verb"
	"github.com/fedsim/fedsim/lab/sessions"
)

// overTime is fedsim run --sessions.
func overTime(ctx context.Context, said []config.Setting, r verb.Sessions, s verb.Streams) error {
	c, err := config.Resolve(said)
	if err != nil {
		return err
	}
	p := verb.NewProgress(s.Err)
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
		name = fmt.Sprintf("%s-%d-sessions-eps%v", algorithm.Name.Of(c), r.Sessions, r.Total)
	}
	dir := filepath.Join(algorithm.Out.Of(c), name)
	if _, err = os.Stat(dir); err == nil {
		return config.Errorf("%s exists already; give another --name, or remove it", dir)
	}
	d := sessions.Design{Sessions: r.Sessions, Total: r.Total, Shares: r.Shares, Seeds: r.Seeds}
	result, err := sessions.Run(ctx, c, set, d, dir, func(seed uint64, arm sessions.Arm, session int) {
		fmt.Fprintf(s.Err, "seed %d: session %d of %d, %s\n", seed, session, r.Sessions, arm)
	})
	if err != nil {
		return err
	}
	pictures, err := result.Write(dir, study.Picture{Format: "svg", Width: 16, Low: math.NaN(), High: math.NaN()})
	if err != nil {
		return err
	}
	if r.Format == "json" {
		return cli.PrintJSON(s.Out, result)
	}
	text := result.Text() + fmt.Sprintf("\nresults     %s\n", dir)
	for _, path := range pictures {
		text += fmt.Sprintf("            %s\n", path)
	}
	return screen.Print(s.Out, text, []string{"fedsim", "results", dir})
}
