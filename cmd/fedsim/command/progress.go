package command

import (
	"fmt"
	"io"

	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/results"
)

// progress tells a person how far a run is.
type progress struct{ *cli.Bar }

func newProgress(w io.Writer) *progress { return &progress{cli.NewBar(w)} }

// Round implements fedsim.Progress.
func (p *progress) Round(m results.Metrics, skipped error) error {
	note := ""
	if m.RatingMetrics != nil {
		note = fmt.Sprintf("rmse %.4f", m.RMSE)
	} else {
		note = fmt.Sprintf("recall@20 %.4f", m.Recall)
	}
	if m.Epsilon != nil {
		note += fmt.Sprintf("  epsilon %.3f", *m.Epsilon)
	}
	if m.Federated != nil {
		note += fmt.Sprintf("  alive %d/%d", m.Alive, m.Alive+m.Dropped)
	}
	if skipped != nil {
		note += "  skipped: " + skipped.Error()
	}
	return p.Line(m.Round, note)
}
