package command

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/internal/study"
	"github.com/fedsim/fedsim/internal/sweep"
	"github.com/fedsim/fedsim/internal/verb"
	"github.com/fedsim/fedsim/lab/page"
	"github.com/fedsim/fedsim/lab/presets"
)

// studies runs the study of a name, or every study of a paper's figure, and makes a page of them.
func studies(ctx context.Context, c verb.Studies, s verb.Streams) error {
	list := presets.All
	if c.Name != "all" {
		p, err := presets.Find(c.Name)
		if err != nil {
			return err
		}
		list = []presets.Preset{p}
	}
	grids := make([][]sweep.Run, len(list))
	for i, p := range list { // before anything runs
		said, err := p.Settings(c.Scale)
		if err != nil {
			return err
		}
		if grids[i], err = c.Grid(said, p.Options); err != nil {
			return fmt.Errorf("preset %s: %w", p.Name, err)
		}
	}
	var parts []page.Part
	for i, p := range list {
		if c.DryRun {
			fmt.Fprintf(s.Out, "%s (%s)\n", p.Name, p.Source)
			if err := sweep.Print(s.Out, grids[i]); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(s.Err, "%s: %s, %s\n", p.Name, p.Source, p.Title)
		dir := filepath.Join(c.Out, p.Name)
		done, err := c.Run(ctx, dir, grids[i])
		if err != nil {
			return err
		}
		part, err := partOf(p, dir, done, s)
		if err != nil {
			return err
		}
		parts = append(parts, part)
	}
	if c.DryRun {
		return nil
	}
	title := "Figures of the papers, at the scale " + c.Scale
	if len(list) == 1 && len(list[0].Claims) == 0 {
		title = "Benchmark " + list[0].Name
	}
	var b bytes.Buffer
	if err := page.Write(&b, page.Content{Title: title, Parts: parts}); err != nil {
		return err
	}
	out := filepath.Join(c.Out, "report.html")
	if err := atomicfile.Write(out, b.Bytes(), 0o644); err != nil {
		return err
	}
	fmt.Fprintf(s.Out, "%s\n", out)
	return nil
}

// partOf makes the part of a preset from its finished runs, and prints a verdict on each of its claims.
func partOf(p presets.Preset, dir string, done []string, s verb.Streams) (page.Part, error) {
	runs, err := study.Load(s.Warn, done...)
	if err != nil {
		return page.Part{}, err
	}
	part, err := p.Part(runs, dir)
	if err != nil {
		return part, err
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s\n", part.Title)
	for _, x := range part.Claims {
		fmt.Fprintf(&text, "  %-13s  %s  %s\n", x.Verdict, x.Text, x.Evidence)
	}
	_, err = io.WriteString(s.Out, text.String())
	return part, err
}
