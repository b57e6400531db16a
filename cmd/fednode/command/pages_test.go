package command

import (
	"context"
	"io"
	"testing"

	"github.com/fedsim/fedsim/internal/cli/clitest"
)

var ofItself = clitest.Command{
	Program: program,
	Tree:    func() any { return new(commands) },
	Run: func(ctx context.Context, args []string, stdout, stderr io.Writer) int {
		return run(ctx, args, &streams{out: stdout, err: stderr})
	},
}

func TestManPageIsComplete(t *testing.T)    { ofItself.ManPage(t) }
func TestExamples(t *testing.T)             { ofItself.Examples(t) }
func TestCompletionIsComplete(t *testing.T) { ofItself.Completion(t) }
