// A service and a client of gRPC (Debian: golang-google-grpc-dev), whose messages are texts.
//
//	grpc serve [CERT KEY]        prints its port
//	grpc call ADDRESS CA KEY SMALL   prints what its calls got; SMALL is a key with three requests a minute
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// In place of that of Protocol Buffers, so that the other end may be any service of texts.
type texts struct{}

func (texts) Marshal(v interface{}) ([]byte, error)      { return []byte(*v.(*string)), nil }
func (texts) Unmarshal(data []byte, v interface{}) error { *v.(*string) = string(data); return nil }
func (texts) Name() string                               { return "proto" }

var cancelled int32

func unary(_ interface{}, ctx context.Context, decode func(interface{}) error, _ grpc.UnaryServerInterceptor) (interface{}, error) {
	var in string
	if err := decode(&in); err != nil {
		return nil, err
	}
	got, _ := metadata.FromIncomingContext(ctx)
	grpc.SetHeader(ctx, metadata.Pairs("x-saw", strings.Join(got.Get("x-mark"), ",")))
	grpc.SetTrailer(ctx, metadata.Pairs("x-said", "bye"))
	switch in {
	case "hang":
		<-ctx.Done()
		atomic.AddInt32(&cancelled, 1)
		return nil, ctx.Err()
	case "cancelled":
		out := strconv.Itoa(int(atomic.LoadInt32(&cancelled)))
		return &out, nil
	case "fail":
		refused, err := status.New(codes.NotFound, "none: 100 % \"ä\"").WithDetails(wrapperspb.String("because"))
		if err != nil {
			return nil, err
		}
		return nil, refused.Err()
	}
	out := strings.ToUpper(in)
	return &out, nil
}

func upload(_ interface{}, stream grpc.ServerStream) error {
	var all []string
	for {
		var in string
		if err := stream.RecvMsg(&in); err == io.EOF {
			out := strings.Join(all, "+")
			return stream.SendMsg(&out)
		} else if err != nil {
			return err
		}
		all = append(all, in)
	}
}

func download(_ interface{}, stream grpc.ServerStream) error {
	var in string
	if err := stream.RecvMsg(&in); err != nil {
		return err
	}
	count, _ := strconv.Atoi(in)
	for i := 1; i <= count; i++ {
		out := strconv.Itoa(i)
		if err := stream.SendMsg(&out); err != nil {
			return err
		}
	}
	return nil
}

func talk(_ interface{}, stream grpc.ServerStream) error {
	for {
		var in string
		if err := stream.RecvMsg(&in); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		out := strings.ToUpper(in)
		if err := stream.SendMsg(&out); err != nil {
			return err
		}
	}
}

var echo = grpc.ServiceDesc{
	ServiceName: "test.Echo",
	HandlerType: (*interface{})(nil),
	Methods:     []grpc.MethodDesc{{MethodName: "Unary", Handler: unary}},
	Streams: []grpc.StreamDesc{
		{StreamName: "Upload", Handler: upload, ClientStreams: true},
		{StreamName: "Download", Handler: download, ServerStreams: true},
		{StreamName: "Talk", Handler: talk, ClientStreams: true, ServerStreams: true},
	},
}

func serve(files []string) {
	var options []grpc.ServerOption
	if len(files) == 2 {
		creds, err := credentials.NewServerTLSFromFile(files[0], files[1])
		check(err)
		options = append(options, grpc.Creds(creds))
	}
	server := grpc.NewServer(options...)
	server.RegisterService(&echo, struct{}{})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	check(server.Serve(listener))
}

func call(address, ca, key, small string) {
	creds, err := credentials.NewClientTLSFromFile(ca, "localhost")
	check(err)
	connection, err := grpc.Dial(address, grpc.WithTransportCredentials(creds))
	check(err)
	base, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	as := func(key string) context.Context {
		return metadata.AppendToOutgoingContext(base, "authorization", "Bearer "+key, "x-mark", "one")
	}
	one := func(ctx context.Context, text, method string, options ...grpc.CallOption) (string, *status.Status) {
		var out string
		err := connection.Invoke(ctx, method, &text, &out, options...)
		return out, status.Convert(err)
	}
	got := map[string]interface{}{}
	const path = "/test.Echo/Unary"

	var header, trailer metadata.MD
	got["unary"], _ = one(as(key), "hello", path, grpc.Header(&header), grpc.Trailer(&trailer))
	got["metadata"] = append(header.Get("x-saw"), trailer.Get("x-said")...)
	_, failed := one(as(key), "fail", path)
	got["failed"] = fmt.Sprint(failed.Code(), " ", failed.Message())
	got["details"] = len(failed.Details())

	stream := open(connection, as(key), "Upload")
	for _, text := range []string{"a", "b", "c"} {
		check(stream.SendMsg(&text))
	}
	got["upload"] = rest(stream)
	stream = open(connection, as(key), "Download")
	count := "1000"
	check(stream.SendMsg(&count))
	got["download"] = len(rest(stream))
	stream = open(connection, as(key), "Talk")
	var talked []string
	for _, text := range []string{"one", "two"} {
		check(stream.SendMsg(&text))
		var out string
		check(stream.RecvMsg(&out))
		talked = append(talked, out)
	}
	got["talk"] = append(talked, rest(stream)...)

	before, _ := one(as(key), "cancelled", path)
	short, stop := context.WithTimeout(as(key), 300*time.Millisecond)
	_, late := one(short, "hang", path)
	stop()
	got["deadline"] = late.Code().String()
	leaving, leave := context.WithCancel(as(key))
	time.AfterFunc(300*time.Millisecond, leave)
	_, left := one(leaving, "hang", path)
	got["cancel"] = left.Code().String()
	for {
		now, _ := one(as(key), "cancelled", path)
		from, _ := strconv.Atoi(before)
		if to, _ := strconv.Atoi(now); to-from == 2 || base.Err() != nil {
			got["cancelled"] = to - from
			break
		}
		time.Sleep(20 * time.Millisecond)
	}

	_, refused := one(base, "hello", path)
	got["401"] = refused.Code().String()
	var wait metadata.MD
	var limited *status.Status
	for i := 0; i < 4; i++ {
		_, limited = one(as(small), "hello", path, grpc.Trailer(&wait))
	}
	got["429"] = fmt.Sprint(limited.Code(), " ", len(wait.Get("retry-after")), " ", len(wait.Get("grpc-retry-pushback-ms")))
	_, none := one(as(key), "hello", "/test.None/Unary")
	got["404"] = none.Code().String()
	_, missing := one(as(key), "hello", "/test.Echo/Missing")
	got["missing"] = missing.Code().String()
	check(json.NewEncoder(os.Stdout).Encode(got))
}

func open(connection *grpc.ClientConn, ctx context.Context, name string) grpc.ClientStream {
	for i := range echo.Streams {
		if echo.Streams[i].StreamName == name {
			stream, err := connection.NewStream(ctx, &echo.Streams[i], "/test.Echo/"+name)
			check(err)
			return stream
		}
	}
	panic(name)
}

// Ends what is sent, and reads what is still to come.
func rest(stream grpc.ClientStream) []string {
	check(stream.CloseSend())
	var all []string
	for {
		var out string
		if err := stream.RecvMsg(&out); err == io.EOF {
			return all
		} else {
			check(err)
		}
		all = append(all, out)
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	encoding.RegisterCodec(texts{})
	if os.Args[1] == "serve" {
		serve(os.Args[2:])
	} else {
		call(os.Args[2], os.Args[3], os.Args[4], os.Args[5])
	}
}
