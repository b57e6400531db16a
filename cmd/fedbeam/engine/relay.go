package engine

import (
	"context"
	"net"
	"strings"

	fnpb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/fnexecution_v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
)

// relay stands between a worker process and Prism. Each process numbers its metrics by itself. Prism keeps the metrics of
// all workers of a job in one place, and would confuse metric 1 of two workers. The relay puts the worker's name before
// numbers on their way to Prism, and takes it off on the way back.
type relay struct {
	fnpb.UnimplementedBeamFnControlServer

	prefix string
	prism  fnpb.BeamFnControlClient
}

// serveRelay makes the relay of a worker, and returns where the worker is to connect.
func serveRelay(worker, control string) (endpoint string, stop func(), err error) {
	const unlimited = 1<<31 - 1
	conn, err := grpc.NewClient(control, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(unlimited), grpc.MaxCallSendMsgSize(unlimited)))
	if err != nil {
		return "", nil, err
	}
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		conn.Close() //nolint:errcheck // it was never used
		return "", nil, err
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(unlimited), grpc.MaxSendMsgSize(unlimited))
	fnpb.RegisterBeamFnControlServer(server, &relay{prefix: worker + "/", prism: fnpb.NewBeamFnControlClient(conn)})
	go server.Serve(listener)                                                    //nolint:errcheck // the worker finds out
	return listener.Addr().String(), func() { server.Stop(); conn.Close() }, nil //nolint:errcheck // the worker is done
}

// outgoing passes on the incoming metadata, which tells Prism the worker's name.
func outgoing(ctx context.Context) context.Context {
	md, _ := metadata.FromIncomingContext(ctx)
	return metadata.NewOutgoingContext(ctx, md)
}

func (r *relay) GetProcessBundleDescriptor(ctx context.Context, in *fnpb.GetProcessBundleDescriptorRequest) (*fnpb.ProcessBundleDescriptor, error) {
	return r.prism.GetProcessBundleDescriptor(outgoing(ctx), in)
}

func (r *relay) Control(worker fnpb.BeamFnControl_ControlServer) error {
	ctx, cancel := context.WithCancel(outgoing(worker.Context()))
	defer cancel()
	prism, err := r.prism.Control(ctx)
	if err != nil {
		return err
	}
	ended := make(chan error, 2)
	go func() {
		for {
			request, err := prism.Recv()
			if err == nil {
				if m := request.GetMonitoringInfos(); m != nil {
					for i, id := range m.GetMonitoringInfoId() {
						m.MonitoringInfoId[i] = strings.TrimPrefix(id, r.prefix)
					}
				}
				err = worker.Send(request)
			}
			if err != nil {
				ended <- err
				return
			}
		}
	}()
	go func() {
		for {
			response, err := worker.Recv()
			if err == nil {
				r.name(response)
				err = prism.Send(response)
			}
			if err != nil {
				ended <- err
				return
			}
		}
	}()
	return <-ended
}

// name puts the worker's name before the numbers of metrics.
func (r *relay) name(m *fnpb.InstructionResponse) {
	switch {
	case m.GetProcessBundle() != nil:
		m.GetProcessBundle().MonitoringData = prefixed(r.prefix, m.GetProcessBundle().GetMonitoringData())
	case m.GetProcessBundleProgress() != nil:
		m.GetProcessBundleProgress().MonitoringData = prefixed(r.prefix, m.GetProcessBundleProgress().GetMonitoringData())
	case m.GetMonitoringInfos() != nil:
		m.GetMonitoringInfos().MonitoringInfo = prefixed(r.prefix, m.GetMonitoringInfos().GetMonitoringInfo())
	}
}

func prefixed[T any](prefix string, m map[string]T) map[string]T {
	out := make(map[string]T, len(m))
	for id, v := range m {
		out[prefix+id] = v
	}
	return out
}
