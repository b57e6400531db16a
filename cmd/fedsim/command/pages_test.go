package command

import (
	"context"
	"io"
	"testing"

	"github.com/fedsim/fedsim/internal/cli/clitest"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/verb"
)

var ofItself = clitest.Command{
	Program: complete(),
	Tree:    func() any { c := newCommands(); return &c },
	Run: func(ctx context.Context, args []string, stdout, stderr io.Writer) int {
		return run(ctx, args, verb.Streams{Out: stdout, Err: stderr})
	},
}

func TestManPageIsComplete(t *testing.T) { ofItself.ManPage(t) }
func TestExamples(t *testing.T) {
	effort.NotShort(t, "runs take seconds")
	ofItself.Examples(t)
}
func TestCompletionIsComplete(t *testing.T) { ofItself.Completion(t) }
