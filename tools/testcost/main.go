// Command testcost sums the processor time of test binaries and compares the sum with a recorded one:
//
//	go test -exec 'testcost -to FILE' ./...      adds a line to FILE for each package
//	testcost -check FILE -against .ci/test-cost  fails if the sum is 1.5 times the recorded one
//	testcost -check FILE                         prints the sum, to be recorded
//
// A sum is a ratio to the processor time of a loop on the same machine, so that it says the same on a slow or busy
// machine. Packages whose results the go command has cached do not run and do not count.
package main

import (
	"bufio"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// most is the ratio to the recorded sum above which the check fails.
const most = 1.5

func main() {
	to := flag.String("to", "", "file that gets a line with the processor seconds of the test binary in the arguments")
	check := flag.String("check", "", "file whose lines are summed")
	against := flag.String("against", "", "file with the recorded sum")
	loop := flag.Bool("loop", false, "run the loop that sums are a ratio to")
	flag.Parse()
	var err error
	switch {
	case *loop:
		work()
	case *to != "":
		err = record(*to, flag.Args())
	default:
		err = compare(os.Stdout, *check, *against, calibrate)
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && *to != "" {
		os.Exit(max(1, exit.ExitCode()))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testcost:", err)
		os.Exit(1)
	}
}

// record runs a test binary and appends its processor seconds and its folder to a file.
func record(file string, args []string) error {
	if len(args) == 0 {
		return errors.New("-to takes the command of a test binary, as go test -exec gives it")
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	// The go command ends a test that takes too long by SIGQUIT, for the test to print where it stands.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGQUIT, syscall.SIGTERM, os.Interrupt)
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s) // it may have ended
		}
	}()
	failed := cmd.Wait()
	dir, err := os.Getwd()
	if err != nil {
		return errors.Join(failed, err)
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return errors.Join(failed, err)
	}
	_, err = fmt.Fprintf(f, "%.3f %s\n", seconds(cmd.ProcessState), dir)
	return errors.Join(failed, err, f.Close())
}

// seconds returns the processor time of an ended process and of the processes that it waited for.
func seconds(s *os.ProcessState) float64 { return (s.UserTime() + s.SystemTime()).Seconds() }

// cost is a line of the file: the seconds of a package.
type cost struct {
	seconds float64
	dir     string
}

func read(file string) ([]cost, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	var list []cost
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		number, dir, _ := strings.Cut(lines.Text(), " ")
		s, err := strconv.ParseFloat(number, 64)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, len(list)+1, err)
		}
		list = append(list, cost{s, dir})
	}
	return list, lines.Err()
}

// compare prints the sum of a file and its five largest parts. It returns an error if the sum is too large.
func compare(w io.Writer, file, against string, calibrate func() (float64, error)) error {
	list, err := read(file)
	if err != nil {
		return err
	}
	unit, err := calibrate()
	if err != nil {
		return err
	}
	sum := 0.
	for _, c := range list {
		sum += c.seconds
	}
	ratio := sum / unit
	fmt.Fprintf(w, "tests of %d packages: %.1f s of processor, %.0f times the loop of %.2f s\n", len(list), sum, ratio, unit) //nolint:errcheck // a failed check says the rest
	slices.SortFunc(list, func(a, b cost) int { return cmp.Compare(b.seconds, a.seconds) })
	for _, c := range list[:min(5, len(list))] {
		fmt.Fprintf(w, "%8.1f s  %s\n", c.seconds, c.dir) //nolint:errcheck // likewise
	}
	if against == "" {
		return nil
	}
	text, err := os.ReadFile(against)
	if err != nil {
		return err
	}
	recorded, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
	if err != nil {
		return fmt.Errorf("%s: %w", against, err)
	}
	if ratio > most*recorded {
		return fmt.Errorf("tests take %.0f times the loop, and %s records %.0f: make them faster, or record the new figure and say why",
			ratio, filepath.Base(against), recorded)
	}
	return nil
}

// calibrate returns the least processor time of three loops, each in a process of its own.
func calibrate() (float64, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	var times []float64
	for range 3 {
		cmd := exec.Command(self, "-loop")
		if err := cmd.Run(); err != nil {
			return 0, err
		}
		times = append(times, seconds(cmd.ProcessState))
	}
	return slices.Min(times), nil
}

// work sorts and counts numbers: arithmetic, branches and memory, as tests have them.
func work() {
	numbers, counts := make([]uint64, 1<<20), make(map[uint64]int)
	x := uint64(1)
	for range 4 {
		for i := range numbers {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
			numbers[i] = x
			counts[x%4096]++
		}
		slices.Sort(numbers)
	}
}
