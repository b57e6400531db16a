package command

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/results/recommend"
)

// serveCmd is fedsim serve.
type serveCmd struct {
	Folder string `required:"" name:"run" placeholder:"DIR" help:"Folder of a finished run, runs/NAME."`
	Data   string `placeholder:"DATA" help:"Ratings, as for fedsim run --data. Default: the run's data. Users of other ratings are fitted to the released items on this machine."`
	formFlags
	Listen string `default:"127.0.0.1:8080" placeholder:"ADDRESS" help:"Address and port. Default 127.0.0.1:8080, which this machine alone reaches; port 0 takes a free one."`
}

// leaving limits the time for requests under way once the command is told to stop.
const leaving = 5 * time.Second

// Run implements fedsim serve.
func (c *serveCmd) Run(ctx context.Context, s streams) error {
	r, err := openRelease(ctx, s, c.Folder, c.Data, &c.formFlags)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return cli.Misusef("--listen %s: %w", c.Listen, err)
	}
	handler := recommend.Handler(r)
	if a, ok := l.Addr().(*net.TCPAddr); ok && a.IP.IsLoopback() {
		handler = recommend.Local(handler)
	} else {
		fmt.Fprintf(s.err, "warning: %s is reached from other machines, and there is no password: each caller learns what users like\n", l.Addr())
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	fmt.Fprintf(s.err, "serving %s at http://%s (/recommend?user=ID, or POST /recommend with ratings; /similar?item=TITLE, /health); Ctrl-C ends it\n", c.Folder, l.Addr())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err = <-ended:
		return err
	case <-ctx.Done():
	}
	// Requests under way are answered. The context has ended, so that they have a time limit of their own.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaving)
	defer cancel()
	if err = server.Shutdown(last); errors.Is(err, context.DeadlineExceeded) {
		err = server.Close()
	}
	return err
}
