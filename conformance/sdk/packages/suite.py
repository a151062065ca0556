"""The calls of packages_test.go through the package for Python."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any, TypeVar

import examples
import httpx

import writ
from writ import AccessToken, ApiError, AsyncClient, Client, ClientCredentials, KeyFile, OAuthError, RefreshToken, SystemUser, reasons
from writ.types import (
    EventPayload,
    ExportRequest,
    ImportRequest,
    IntrospectionRequest,
    MachineKey,
    MachineKeyType,
    PatchTarget,
    RestRequestResponse,
    RestWebhook,
    RevocationRequest,
    Service,
    Target,
    TargetFieldName,
    TargetNameFilter,
    TargetSearchFilter,
    TextFilterMethod,
    TokenRequest,
    User,
)

env = os.environ
proxy = env["WRIT_TEST_PROXY"]
name = f"SDK python {env['WRIT_TEST_RUN']}"
E_ = TypeVar("E_", bound=BaseException)


def target(name: str, is_async: bool | None = None) -> Target:
    return Target(name=name, rest_webhook=RestWebhook(url="https://hooks.example/a"), timeout=timedelta(seconds=10), is_async=is_async)


@dataclass
class Faulty:
    """A client whose requests something happens to on the way."""

    fault: str
    options: dict[str, Any] = field(default_factory=dict)
    attempts: list[str] = field(default_factory=list)

    @property
    def client(self) -> Client:
        http = httpx.Client(event_hooks={"request": [lambda request: self.attempts.append(request.url.path)]})
        return Client(proxy, headers={"x-fault": self.fault, "x-fault-key": str(uuid.uuid4())}, http=http, **self.options)


def raised(kind: type[E_], work: Callable[[], object]) -> E_:
    try:
        work()
    except kind as error:
        return error
    raise AssertionError(f"nothing was raised, not even {kind.__name__}")


client = Client()  # from the environment
starts_with = TargetSearchFilter(name=TargetNameFilter(name=name, method=TextFilterMethod.STARTS_WITH))
id = ""


def create() -> None:
    global id
    reply = client.actions.create_target(target(name, is_async=True))
    id = reply.details.id
    assert len(id) == 36 and reply.signing_key.startswith("whsec_")


def get() -> None:
    read = client.actions.get_target(id).target.target
    assert (read.name, read.timeout, read.is_async) == (name, timedelta(seconds=10), True)
    assert read.interrupt_on_error is None


def search() -> None:
    for n in (1, 2, 3):
        client.actions.create_target(target(f"{name} {n}"))
    found = client.actions.search_targets([starts_with], limit=2, asc=True, sorting_column=TargetFieldName.NAME)
    assert [each.target.name for each in found] == [name, f"{name} 1", f"{name} 2", f"{name} 3"]
    page = found.page()
    assert (len(page.result), page.details.end_of_list, page.details.total_result) == (2, False, 4)


def patch() -> None:
    client.actions.patch_target(id, PatchTarget(timeout=timedelta(seconds=5)))
    read = client.actions.get_target(id).target.target
    assert (read.name, read.timeout, read.is_async) == (name, timedelta(seconds=5), True)


def oneof() -> None:
    client.actions.patch_target(id, PatchTarget(rest_request_response=RestRequestResponse(url="https://hooks.example/b")))
    read = client.actions.get_target(id).target.target
    assert read.rest_webhook is None and read.rest_request_response
    assert read.rest_request_response.url == "https://hooks.example/b"


def reason() -> None:
    error = raised(writ.AlreadyExistsError, lambda: client.actions.create_target(target(name)))
    assert (error.status, error.code, error.reason) == (409, "ALREADY_EXISTS", reasons.TARGET_NAME_TAKEN)
    assert error.request_id and error.request_id in str(error)
    assert json.loads(error.body)


def violation() -> None:
    error = raised(writ.InvalidArgumentError, lambda: client.actions.create_target(target("")))
    assert error.status == 400 and error.violations[0].field == "name", error.violations


def missing() -> None:
    error = raised(writ.NotFoundError, lambda: client.actions.get_target("nobody"))
    assert (error.status, error.code) == (404, "NOT_FOUND")
    assert "is not an ID" in str(raised(writ.WritError, lambda: client.actions.get_target("..")))


def numbers() -> None:
    faulty = Faulty("future")
    assert faulty.client.actions.get_target(id).target.details.sequence == 18446744073709551615
    assert len(faulty.attempts) == 1


def times() -> None:
    date = client.actions.get_target(id).target.details.change_date
    assert abs(datetime.now(timezone.utc) - date) < timedelta(hours=1)


def durations() -> None:
    client.actions.patch_target(id, PatchTarget(timeout=timedelta(seconds=1.5)))
    assert client.actions.get_target(id).target.target.timeout == timedelta(seconds=1.5)


def unknown() -> None:
    page = Faulty("future").client.actions.search_targets(limit=1).page()
    assert page.sorting_column == "TARGET_FIELD_NAME_OF_TOMORROW"
    assert page.unknown_fields == {"fromTomorrow": {"is": None}}
    assert page.to_dict()["fromTomorrow"] == {"is": None}


def omitted() -> None:
    page = Faulty("omit").client.actions.search_targets(limit=1).page()
    assert page.details.total_result == 0 and len(page.result) == 1 and page.result[0].target.name == ""


def retry() -> None:
    faulty = Faulty("unavailable")  # twice, with Retry-After
    assert faulty.client.actions.get_target(id).target.details.id == id
    assert len(faulty.attempts) == 3


def no_retry() -> None:
    create = Faulty("unavailable")  # it may have happened
    assert raised(writ.UnavailableError, lambda: create.client.actions.create_target(target(f"{name} 9"))).status == 503
    off = Faulty("unavailable", {"retries": 0})
    assert raised(writ.UnavailableError, lambda: off.client.actions.get_target(id)).retry_after == 0
    lost = Faulty("lost")
    raised(writ.ConnectionError, lambda: lost.client.actions.patch_target(id, PatchTarget()))
    refused = Faulty("none")
    raised(writ.NotFoundError, lambda: refused.client.actions.get_target("nobody"))
    assert [len(each.attempts) for each in (create, off, lost, refused)] == [1, 1, 1, 1]


def timeout() -> None:
    raised(writ.TimeoutError, lambda: Faulty("hang").client.actions.get_target(id, timeout=0.05))


def cancel() -> None:
    async def cancelled() -> None:
        headers = {"x-fault": "hang", "x-fault-key": str(uuid.uuid4())}
        async with AsyncClient(proxy, headers=headers) as hanging:
            task = asyncio.create_task(hanging.actions.get_target(id))
            await asyncio.sleep(0.02)
            task.cancel()
            await task

    raised(asyncio.CancelledError, lambda: asyncio.run(cancelled()))

    async def iterated() -> list[str]:
        async with AsyncClient() as client:
            return [each.target.name async for each in client.actions.search_targets([starts_with], limit=3)]

    assert len(asyncio.run(iterated())) == 4


def client_credentials() -> None:
    with Client(credentials=ClientCredentials(env["WRIT_TEST_SERVICE"], env["WRIT_TEST_SERVICE_SECRET"])) as service:
        assert service.oauth.get_user_info().sub


def key_file() -> None:
    user = client.users.create_user(User(username=name.lower().replace(" ", "-"), service=Service(name=name))).details.id
    for kind in (MachineKeyType.RSA_2048, MachineKeyType.EC_P256):
        key = client.users.create_machine_key(user, MachineKey(type=kind))
        assert Client(credentials=KeyFile.parse(key.key_details)).oauth.get_user_info().sub == user


def system_user() -> None:
    source = SystemUser("automation", env["WRIT_TEST_SYSTEM_KEY"])
    assert Client(env["WRIT_TEST_NODE"], source).instances.search_instances().to_list()


def refresh_token() -> None:
    saved: list[str] = []
    source = RefreshToken(env["CLIENT_ID"], env["WRIT_TEST_REFRESH_TOKEN"], env["CLIENT_SECRET"], save=saved.append)
    faulty = Faulty("none", {"credentials": source})
    shared = faulty.client
    with ThreadPoolExecutor(10) as threads:
        subjects = set(threads.map(lambda _: shared.oauth.get_user_info().sub, range(10)))
    assert len(subjects) == 1, subjects
    assert faulty.attempts.count("/oauth/v2/token") == 1
    assert len(saved) == 1 and saved[0] != env["WRIT_TEST_REFRESH_TOKEN"]

    async def tasks() -> None:
        paths: list[str] = []

        async def note(request: httpx.Request) -> None:
            paths.append(request.url.path)

        async def save(token: str) -> None:
            saved.append(token)

        source = RefreshToken(env["CLIENT_ID"], saved[0], env["CLIENT_SECRET"], save=save)
        async with httpx.AsyncClient(event_hooks={"request": [note]}) as http, AsyncClient(credentials=source, http=http) as client:
            first = asyncio.create_task(client.oauth.get_user_info())
            others = [asyncio.create_task(client.oauth.get_user_info()) for _ in range(9)]
            await asyncio.sleep(0)
            first.cancel()  # the rotation that it began goes on
            assert {(await each).sub for each in others} == subjects
        assert paths.count("/oauth/v2/token") == 1 and len(saved) == 2, paths

    asyncio.run(tasks())


def revoked_token() -> None:
    asked = threading.Semaphore(2)

    def source() -> AccessToken:
        assert asked.acquire(blocking=False)
        return AccessToken(env["WRIT_ADMIN_TOKEN"], time.time() + 300)

    Faulty("unauthenticated", {"credentials": source}).client.actions.get_target(id)
    assert not asked.acquire(blocking=False)


def oauth_error() -> None:
    request = TokenRequest(grant_type="client_credentials")
    error = raised(OAuthError, lambda: client.oauth.token(request, client=(env["CLIENT_ID"], "wrong")))
    assert (error.status, error.error) == (401, "invalid_client")


def login() -> None:
    assert client.oauth.get_configuration().issuer == env["OIDC_ISSUER"]
    begun = client.oauth.authorize(env["CLIENT_ID"], "https://app.example/back")
    assert httpx.URL(begun.url).params["state"] == begun.state
    error = raised(OAuthError, lambda: client.oauth.exchange("no-code", "https://app.example/back", "no-verifier"))
    assert error.error == "invalid_grant"
    assert client.oauth.introspect(IntrospectionRequest(token="nothing")).active is False
    client.oauth.revoke(RevocationRequest(token="nothing"))


def tracing() -> None:
    traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    seen: list[str | None] = []
    hooks: dict[str, list[Callable[..., Any]]] = {
        "request": [lambda request: request.headers.update({"traceparent": traceparent})],
        "response": [lambda response: seen.append(response.headers.get("x-seen-traceparent"))],
    }
    traced = Client(proxy, headers={"x-fault": "none", "x-fault-key": "-"}, http=httpx.Client(event_hooks=hooks))
    status: list[int] = []
    traced.actions.get_target(id, on_answer=lambda answer: status.append(answer.status))
    assert (seen, status) == ([traceparent], [200])


def webhook() -> None:
    deliveries = json.loads(env["WRIT_TEST_DELIVERIES"])
    assert deliveries
    for each in deliveries:
        if each["want"] == "key":
            raised(ValueError, lambda: writ.WebhookVerifier(each["keys"]))
            continue
        verifier = writ.WebhookVerifier(each["keys"])
        try:
            event = EventPayload.from_dict(verifier.verify(each["body"], each["headers"]))
            got = "body" if event.event_type == "user.human.added" else ""
        except writ.SignatureError:
            got = "signature"
        assert got == each["want"], (each["name"], got)
    for key in ("", "whsec_"):
        raised(ValueError, lambda: writ.WebhookVerifier(key))


def export_and_import() -> None:
    file = client.administration.export_data(ExportRequest(org_ids=[env["WRIT_TEST_ORG"]], response_output=True))
    assert len(file.organizations) == 1
    client.administration.import_data(ImportRequest(data_orgsv1=file, dry_run=True, on_conflict="skip"))
    started = client.administration.start_export_data(ExportRequest(org_ids=[env["WRIT_TEST_ORG"]], response_output=True))
    assert started.id


def run_examples() -> None:
    # On a server of their own: they change what they can. There may be nothing of that ID, or already
    # something of that name, or the transfer of an example before still runs; but the server understood
    # the example.
    understood = ("NOT_FOUND", "ALREADY_EXISTS", "FAILED_PRECONDITION", "PERMISSION_DENIED", "UNAUTHENTICATED")
    refused = []
    owner, system = (Client(env["WRIT_TEST_OWN"], env[f"WRIT_TEST_OWN_{name}"]) for name in ("TOKEN", "SYSTEM_TOKEN"))
    for example in examples.ALL:
        name = example.__name__
        try:
            example(owner if re.search("export|import|operation|user_info", name) else system)
        except ApiError as error:
            if error.code not in understood and error.reason != "TRANSFERS_RUNNING":
                refused.append(f"{name}: {error}")
        except OAuthError:
            pass
    assert not refused, refused


def delete() -> None:
    for each in client.actions.search_targets([starts_with]).to_list():
        client.actions.delete_target(each.details.id)
    raised(writ.NotFoundError, lambda: client.actions.get_target(id))


for step in (
    create, get, search, patch, oneof, reason, violation, missing, numbers, times, durations, unknown, omitted, retry, no_retry, timeout, cancel,
    client_credentials, key_file, system_user, refresh_token, revoked_token, oauth_error, login, tracing, webhook, export_and_import, run_examples, delete,
):  # fmt: skip
    step()
    print(step.__name__.replace("run_", "").replace("_", " "))
    sys.stdout.flush()
