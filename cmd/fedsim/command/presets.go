package command

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/study"
	"github.com/fedsim/fedsim/internal/study/page"
	"github.com/fedsim/fedsim/internal/sweep"
	"github.com/fedsim/fedsim/internal/verb"
)

// presets runs the studies of figures, and makes a page of them.
func (c *sweepCmd) presets(ctx context.Context, s verb.Streams) error {
	if c.File != "" || c.On != "local" {
		return cli.Misusef("--preset %s: it has a grid of its own, and runs on this machine; --dry-run lists its runs", c.Preset)
	}
	if verb.Presets == nil {
		return cli.Misusef("--preset %s: this program was built without the papers' studies; use fedsim itself", c.Preset)
	}
	list, err := verb.Presets(c.Preset)
	if err != nil {
		return err
	}
	grids := make([][]sweep.Run, len(list))
	for i, p := range list { // before anything runs
		said, failed := p.Settings(c.Scale)
		if failed != nil {
			return failed
		}
		if grids[i], err = c.runs(said, p.Options, s.Err); err != nil {
			return fmt.Errorf("preset %s: %w", p.Name, err)
		}
	}
	var parts []page.Part
	for i, p := range list {
		if c.DryRun {
			fmt.Fprintf(s.Out, "%s (%s)\n", p.Name, p.Source)
			if err = listRuns(s.Out, grids[i]); err != nil {
				return err
			}
			continue
		}
		part, failed := c.preset(ctx, s, p, grids[i])
		if failed != nil {
			return failed
		}
		parts = append(parts, part)
	}
	if c.DryRun {
		return nil
	}
	var b bytes.Buffer
	title := "Figures of the papers, at the scale " + c.Scale
	if len(list) == 1 && list[0].Benchmark {
		title = "Benchmark " + list[0].Name
	}
	if err = page.Write(&b, page.Content{Title: title, Parts: parts}); err != nil {
		return err
	}
	out := filepath.Join(c.Out, "report.html")
	if err = atomicfile.Write(out, b.Bytes(), 0o644); err != nil {
		return err
	}
	fmt.Fprintf(s.Out, "%s\n", out)
	return nil
}

// preset runs a preset, and prints a verdict on each of its claims.
func (c *sweepCmd) preset(ctx context.Context, s verb.Streams, p verb.Preset, runs []sweep.Run) (page.Part, error) {
	fmt.Fprintf(s.Err, "%s: %s, %s\n", p.Name, p.Source, p.Title)
	f, release, err := prepare(ctx, s, filepath.Join(c.Out, p.Name), runs)
	if err != nil {
		return page.Part{}, err
	}
	defer release()
	failures, err := c.local(ctx, s, f)
	if err != nil {
		return page.Part{}, err
	}
	if err = failed(f, failures); err != nil {
		return page.Part{}, err
	}
	done, err := study.Load(s.Warn, folders(f)...)
	if err != nil {
		return page.Part{}, err
	}
	part, err := p.Part(done, f.Path)
	if err != nil {
		return part, err
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s\n", part.Title)
	for _, x := range part.Claims {
		fmt.Fprintf(&text, "  %-13s  %s  %s\n", x.Verdict, x.Text, x.Evidence)
	}
	_, err = s.Out.Write([]byte(text.String()))
	return part, err
}
