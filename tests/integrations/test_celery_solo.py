"""Celery in one process, where the worker itself runs the tasks."""

import pytest


@pytest.fixture(scope="module")
def host(start_host):
    return start_host("celery", "-A", "celery_shop", "worker", "--pool", "solo", "-l", "INFO")


def test_tasks_are_retried_and_dead_lettered_as_by_worker_processes(host):
    host.python(
        "import celery_shop\n"
        "celery_shop.work.delay('once', 'once')\n"
        "celery_shop.work.delay('permanent', 'wrong')\n"
        "with celery_shop.app.connection_for_write() as connection:\n"
        "    connection.Producer().publish('{ no json', routing_key='celery', content_type='application/json',\n"
        "        headers={'task': 'celery_shop.work', 'id': 'u1'}, content_encoding='utf-8', serializer=None)\n"
    )
    host.wait(lambda: host.events("once", "done"))
    letters = host.wait(lambda: len(found := host.dead_letters("celery")) == 2 and found)
    assert {(each.error_class, each.attempts) for each in letters} == {("BUG", 1), ("SCHEMA_INVALID", 0)}
    host.python("import celery_shop; celery_shop.work.delay('ok', 'after')")
    host.wait(lambda: host.events("after", "done"))
    assert len(host.dead_letters("celery")) == 2
