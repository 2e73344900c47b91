// Prints what exists, and then every change: the first address of a replica is what it asks.
//
//	client 10.0.0.1:50051
package main

import (
	"context"
	"fmt"
	"os"

	"google.golang.org/grpc"

	weft "weft.invalid/stubs/weft/v1"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: client ADDRESS")
		os.Exit(2)
	}
	if err := follow(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func follow(ctx context.Context, address string) error {
	channel, err := grpc.DialContext(ctx, address, grpc.WithInsecure())
	if err != nil {
		return err
	}
	defer channel.Close()
	stream, err := weft.NewWatchServiceClient(channel).Watch(ctx, &weft.WatchRequest{})
	if err != nil {
		return err
	}
	for {
		answer, err := stream.Recv()
		if err != nil {
			return err
		}
		for _, change := range answer.GetChanges() {
			fmt.Println(answer.GetHeader().GetRevision(), change.GetChangeType(), change.GetKind(), change.GetName())
		}
	}
}
