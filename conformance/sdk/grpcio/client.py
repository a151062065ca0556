"""What grpcio-tools makes of the published descriptors."""

import os
from urllib.parse import urlsplit

import grpc
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2, status_pb2
from writ.action.v3alpha import action_service_pb2 as actions
from writ.action.v3alpha import action_service_pb2_grpc, target_pb2
from writ.object.v3alpha import object_pb2

name = os.environ["WRIT_NAME"]
metadata = [("authorization", "Bearer " + os.environ["WRIT_TOKEN"])]
with grpc.insecure_channel(urlsplit(os.environ["WRIT_URL"]).netloc) as channel:
    stub = action_service_pb2_grpc.ServiceActionsStub(channel)
    target = target_pb2.Target(
        name=name, rest_webhook=target_pb2.RestWebhook(url="https://hooks.example/a"), timeout=Duration(seconds=10), is_async=True)
    id = stub.CreateTarget(actions.CreateTargetRequest(target=target), metadata=metadata).details.id
    print("created", id)

    read = stub.GetTarget(actions.GetTargetRequest(id=id), metadata=metadata).target
    assert read.target == target
    print("read", None if not read.target.HasField("rest_request_response") else read)

    found = stub.SearchTargets(actions.SearchTargetsRequest(
        query=object_pb2.ListQuery(limit=10, asc=True), sorting_column=target_pb2.TARGET_FIELD_NAME_NAME,
        filters=[target_pb2.TargetSearchFilter(name=target_pb2.TargetNameFilter(
            name=name.upper(), method=object_pb2.TEXT_FILTER_METHOD_EQUALS_IGNORE_CASE))]), metadata=metadata)
    assert [each.details.id for each in found.result] == [id] and found.details.end_of_list
    print("found", found.details.total_result)

    stub.PatchTarget(actions.PatchTargetRequest(id=id, target=target_pb2.PatchTarget(
        timeout=Duration(seconds=5), rest_request_response=target_pb2.RestRequestResponse(url="https://hooks.example/b"))), metadata=metadata)
    patched = stub.GetTarget(actions.GetTargetRequest(id=id), metadata=metadata).target.target
    assert (patched.name, patched.timeout.seconds, patched.HasField("rest_webhook")) == (name, 5, False)
    print("patched", patched.rest_request_response.url)

    try:
        stub.CreateTarget(actions.CreateTargetRequest(target=target), metadata=metadata)
    except grpc.RpcError as refusal:
        status, info = status_pb2.Status(), error_details_pb2.ErrorInfo()
        status.ParseFromString(dict(refusal.trailing_metadata())["grpc-status-details-bin"])
        status.details[0].Unpack(info)
        print("refused", refusal.code().name, info.reason)

    stub.DeleteTarget(actions.DeleteTargetRequest(id=id), metadata=metadata)
    try:
        stub.GetTarget(actions.GetTargetRequest(id=id), metadata=metadata)
    except grpc.RpcError as refusal:
        print("deleted", refusal.code().name)
